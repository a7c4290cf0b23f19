int32_t run(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals);
/* The whole model. features: f32[batch, 6] -> Tanh 2; * /: f32[batch, 6], features: f32[batch, 6], Tanh 2; * /: f32[batch, 6] */
int32_t run(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals) {
  const int64_t batch = sizes[0];
  const int64_t *offsets = sizes + 1;
  const float *features = args[0];
  float *Exp_0 = (float *)(workspace + offsets[0]);
  float *tvmgen_default_fused_trilu = (float *)(workspace + offsets[1]);
  float *Tanh_2 = args[1];
  float *features_1 = args[2];
  float *Tanh_2_1 = args[3];
  exp_HASH(features, Exp_0, batch, team);
  if (team_wait(team)) return run_status(team);
  {
    const void *arrays[] = {Exp_0, tvmgen_default_fused_trilu};
    const int32_t stopped = call_external(externals, 0, arrays, team);
    if (stopped) return stopped;
  }
  if (team_wait(team)) return run_status(team);
  tanh_HASH(tvmgen_default_fused_trilu, Tanh_2, batch, team);
  if (team_wait(team)) return run_status(team);
  if (team->thread == 0) memcpy(features_1, features, batch * 24);
  if (team_wait(team)) return run_status(team);
  if (team->thread == 0) memcpy(Tanh_2_1, Tanh_2, batch * 24);
  return run_status(team);
}

void run_buffers(const int64_t *sizes, int64_t *bytes);
void run_buffers(const int64_t *sizes, int64_t *bytes) {
  const int64_t batch = sizes[0];
  bytes[0] = batch * 24;
  bytes[1] = batch * 24;
}
