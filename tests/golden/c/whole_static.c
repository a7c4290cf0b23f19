int32_t run(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals);
/* The whole model. image: f32[1, 3, 8, 8] -> Softmax_3: f32[1, 64] */
int32_t run(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals) {
  (void)sizes;
  (void)externals;
  const float *image = args[0];
  const float *Conv_0_const_0 = args[1];
  float *Conv_0_pad = (float *)(workspace + 0);
  float *Conv_0 = (float *)(workspace + 1216);
  float *tvmgen_default_fused_nn_max_pool2d = (float *)(workspace + 0);
  float *Softmax_3 = args[2];
  nn_conv2d_HASH(image, Conv_0_const_0, Conv_0_pad, Conv_0, team);
  if (team_wait(team)) return run_status(team);
  nn_max_pool2d_HASH(Conv_0, tvmgen_default_fused_nn_max_pool2d, team);
  if (team_wait(team)) return run_status(team);
  nn_softmax_HASH(tvmgen_default_fused_nn_max_pool2d, Softmax_3, team);
  return run_status(team);
}
