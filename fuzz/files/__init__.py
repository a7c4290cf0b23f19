"""Artefacts, plans, boundary and calibration files, damaged and edited, through everything that reads them."""
