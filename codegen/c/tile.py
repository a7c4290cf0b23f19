"""x"""
def tile_stage(stage, simplify, machine):
    return None
