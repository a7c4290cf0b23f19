/* p0: f32[1, 3, 5, 8], const_0: f32[2, 16, 8, 8], const_1: f32[12] -> relu: f32[1, 3, 5, 12] */
void fused_nn_conv2d_add_nn_relu_ad5c848c1e96(const float *restrict p0, const float *restrict const_0, const float *restrict const_1, float *restrict pad_tiles, float *restrict relu, const Team *team) {
  const int64_t begin = 6 * team->thread / team->threads;
  const int64_t end = 6 * (team->thread + 1) / team->threads;
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t tile_y = tile / 3;
    const int64_t tile_x = tile % 3;
    f32x8 pixel_0 = {0};
    if (tile_y * 2 >= 1 && tile_x * 2 >= 1) {
      pixel_0 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 - 48));
    }
    f32x8 pixel_1 = {0};
    if (tile_x * 2 >= 1) {
      pixel_1 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 - 8));
    }
    f32x8 pixel_2 = {0};
    if (tile_y * 2 + 2 < 4 && tile_x * 2 >= 1) {
      pixel_2 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 32));
    }
    f32x8 pixel_3 = {0};
    if (tile_y * 2 + 3 < 5 && (tile_y * 2 + 3 < 4 && tile_x * 2 >= 1)) {
      pixel_3 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 72));
    }
    f32x8 row_0_0 = (pixel_2 - pixel_0);
    f32x8 row_1_0 = (pixel_2 + pixel_1);
    f32x8 row_2_0 = (pixel_2 - pixel_1);
    f32x8 row_3_0 = (pixel_3 - pixel_1);
    f32x8 pixel_0_1 = {0};
    if (tile_y * 2 >= 1) {
      pixel_0_1 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 - 40));
    }
    f32x8 pixel_1_1 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16));
    f32x8 pixel_2_1 = {0};
    if (tile_y * 2 + 2 < 4) {
      pixel_2_1 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 40));
    }
    f32x8 pixel_3_1 = {0};
    if (tile_y * 2 + 3 < 5 && tile_y * 2 + 3 < 4) {
      pixel_3_1 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 80));
    }
    f32x8 row_0_1 = (pixel_2_1 - pixel_0_1);
    f32x8 row_1_1 = (pixel_2_1 + pixel_1_1);
    f32x8 row_2_1 = (pixel_2_1 - pixel_1_1);
    f32x8 row_3_1 = (pixel_3_1 - pixel_1_1);
    f32x8 pixel_0_2 = {0};
    if (tile_y * 2 >= 1 && tile_x * 2 + 2 < 6) {
      pixel_0_2 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 - 32));
    }
    f32x8 pixel_1_2 = {0};
    if (tile_x * 2 + 2 < 6) {
      pixel_1_2 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 8));
    }
    f32x8 pixel_2_2 = {0};
    if (tile_y * 2 + 2 < 4 && tile_x * 2 + 2 < 6) {
      pixel_2_2 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 48));
    }
    f32x8 pixel_3_2 = {0};
    if (tile_y * 2 + 3 < 5 && (tile_y * 2 + 3 < 4 && tile_x * 2 + 2 < 6)) {
      pixel_3_2 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 88));
    }
    f32x8 row_0_2 = (pixel_2_2 - pixel_0_2);
    f32x8 row_1_2 = (pixel_2_2 + pixel_1_2);
    f32x8 row_2_2 = (pixel_2_2 - pixel_1_2);
    f32x8 row_3_2 = (pixel_3_2 - pixel_1_2);
    f32x8 pixel_0_3 = {0};
    if (tile_x * 2 + 3 < 7 && (tile_y * 2 >= 1 && tile_x * 2 + 3 < 6)) {
      pixel_0_3 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 - 24));
    }
    f32x8 pixel_1_3 = {0};
    if (tile_x * 2 + 3 < 7 && tile_x * 2 + 3 < 6) {
      pixel_1_3 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 16));
    }
    f32x8 pixel_2_3 = {0};
    if (tile_x * 2 + 3 < 7 && (tile_y * 2 + 2 < 4 && tile_x * 2 + 3 < 6)) {
      pixel_2_3 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 56));
    }
    f32x8 pixel_3_3 = {0};
    if (tile_y * 2 + 3 < 5 && tile_x * 2 + 3 < 7 && (tile_y * 2 + 3 < 4 && tile_x * 2 + 3 < 6)) {
      pixel_3_3 = load_f32x8(p0 + (tile_y * 80 + tile_x * 16 + 96));
    }
    f32x8 row_0_3 = (pixel_2_3 - pixel_0_3);
    f32x8 row_1_3 = (pixel_2_3 + pixel_1_3);
    f32x8 row_2_3 = (pixel_2_3 - pixel_1_3);
    f32x8 row_3_3 = (pixel_3_3 - pixel_1_3);
    store_f32x8(pad_tiles + tile * 8, (row_0_2 - row_0_0));
    store_f32x8(pad_tiles + (tile * 8 + 64), (row_0_2 + row_0_1));
    store_f32x8(pad_tiles + (tile * 8 + 128), (row_0_2 - row_0_1));
    store_f32x8(pad_tiles + (tile * 8 + 192), (row_0_3 - row_0_1));
    store_f32x8(pad_tiles + (tile * 8 + 256), (row_1_2 - row_1_0));
    store_f32x8(pad_tiles + (tile * 8 + 320), (row_1_2 + row_1_1));
    store_f32x8(pad_tiles + (tile * 8 + 384), (row_1_2 - row_1_1));
    store_f32x8(pad_tiles + (tile * 8 + 448), (row_1_3 - row_1_1));
    store_f32x8(pad_tiles + (tile * 8 + 512), (row_2_2 - row_2_0));
    store_f32x8(pad_tiles + (tile * 8 + 576), (row_2_2 + row_2_1));
    store_f32x8(pad_tiles + (tile * 8 + 640), (row_2_2 - row_2_1));
    store_f32x8(pad_tiles + (tile * 8 + 704), (row_2_3 - row_2_1));
    store_f32x8(pad_tiles + (tile * 8 + 768), (row_3_2 - row_3_0));
    store_f32x8(pad_tiles + (tile * 8 + 832), (row_3_2 + row_3_1));
    store_f32x8(pad_tiles + (tile * 8 + 896), (row_3_2 - row_3_1));
    store_f32x8(pad_tiles + (tile * 8 + 960), (row_3_3 - row_3_1));
  }
  if (team_wait(team)) return;
  float products[512];
  const int64_t begin_1 = 4 * team->thread / team->threads;
  const int64_t end_1 = 4 * (team->thread + 1) / team->threads;
  for (int64_t part = begin_1; part < end_1; ++part) {
    const int64_t panel = part / 2;
    const int64_t chunk = part % 2;
    for (int64_t point = 0; point < 16; ++point) {
      for (int64_t block = 0; block < min_i64(2, chunk * -2 + 3); ++block) {
        f32x8 sum_0_0 = {0};
        f32x8 sum_1_0 = {0};
        for (int64_t channel = 0; channel < 8; ++channel) {
          f32x8 weights_0 = held_f32x8(load_f32x8(const_0 + (panel * 1024 + point * 64 + channel * 8)));
          float tile_0 = pad_tiles[point * 64 + block * 16 + chunk * 32 + channel];
          sum_0_0 = (sum_0_0 + tile_0 * weights_0);
          float tile_1 = pad_tiles[point * 64 + block * 16 + chunk * 32 + channel + 8];
          sum_1_0 = (sum_1_0 + tile_1 * weights_0);
        }
        store_f32x8(products + (point * 32 + block * 16), sum_0_0);
        store_f32x8(products + (point * 32 + block * 16 + 8), sum_1_0);
      }
    }
    for (int64_t tile = 0; tile < min_i64(4, chunk * -4 + 6); ++tile) {
      const int64_t tile_y_1 = (chunk * 4 + tile) / 3;
      const int64_t tile_x_1 = (chunk * 4 + tile) % 3;
      float pixels[32];
      f32x8 part_1 = load_f32x8(products + tile * 8);
      f32x8 part_2 = load_f32x8(products + (tile * 8 + 128));
      f32x8 part_3 = load_f32x8(products + (tile * 8 + 256));
      f32x8 part_4 = load_f32x8(products + (tile * 8 + 384));
      f32x8 part_5 = (part_2 + part_3);
      f32x8 part_6 = (part_2 - part_3);
      f32x8 row_0_0_1 = (part_1 + part_5);
      f32x8 row_1_0_1 = (part_4 + part_6);
      f32x8 part_7 = load_f32x8(products + (tile * 8 + 32));
      f32x8 part_8 = load_f32x8(products + (tile * 8 + 160));
      f32x8 part_9 = load_f32x8(products + (tile * 8 + 288));
      f32x8 part_10 = load_f32x8(products + (tile * 8 + 416));
      f32x8 part_11 = (part_8 + part_9);
      f32x8 part_12 = (part_8 - part_9);
      f32x8 row_0_1_1 = (part_7 + part_11);
      f32x8 row_1_1_1 = (part_10 + part_12);
      f32x8 part_13 = load_f32x8(products + (tile * 8 + 64));
      f32x8 part_14 = load_f32x8(products + (tile * 8 + 192));
      f32x8 part_15 = load_f32x8(products + (tile * 8 + 320));
      f32x8 part_16 = load_f32x8(products + (tile * 8 + 448));
      f32x8 part_17 = (part_14 + part_15);
      f32x8 part_18 = (part_14 - part_15);
      f32x8 row_0_2_1 = (part_13 + part_17);
      f32x8 row_1_2_1 = (part_16 + part_18);
      f32x8 part_19 = load_f32x8(products + (tile * 8 + 96));
      f32x8 part_20 = load_f32x8(products + (tile * 8 + 224));
      f32x8 part_21 = load_f32x8(products + (tile * 8 + 352));
      f32x8 part_22 = load_f32x8(products + (tile * 8 + 480));
      f32x8 part_23 = (part_20 + part_21);
      f32x8 part_24 = (part_20 - part_21);
      f32x8 row_0_3_1 = (part_19 + part_23);
      f32x8 row_1_3_1 = (part_22 + part_24);
      f32x8 part_25 = (row_0_1_1 + row_0_2_1);
      f32x8 part_26 = (row_0_1_1 - row_0_2_1);
      store_f32x8(pixels + 0, (row_0_0_1 + part_25));
      store_f32x8(pixels + 8, (row_0_3_1 + part_26));
      f32x8 part_27 = (row_1_1_1 + row_1_2_1);
      f32x8 part_28 = (row_1_1_1 - row_1_2_1);
      store_f32x8(pixels + 16, (row_1_0_1 + part_27));
      store_f32x8(pixels + 24, (row_1_3_1 + part_28));
      if (panel < 1) {
        for (int64_t y = 0; y < min_i64(2, tile_y_1 * -2 + 3); ++y) {
          for (int64_t x = 0; x < min_i64(2, tile_x_1 * -2 + 5); ++x) {
            store_f32x8(relu + (tile_y_1 * 120 + y * 60 + tile_x_1 * 24 + x * 12 + panel * 8), max_number_f32x8(0.0f, load_f32x8(pixels + (y * 16 + x * 8)) + load_f32x8(const_1 + panel * 8)));
          }
        }
      }
      if (panel >= 1) {
        for (int64_t y = 0; y < min_i64(2, tile_y_1 * -2 + 3); ++y) {
          for (int64_t x = 0; x < min_i64(2, tile_x_1 * -2 + 5); ++x) {
            store_first_f32x8(relu + (tile_y_1 * 120 + y * 60 + tile_x_1 * 24 + x * 12 + panel * 8), max_number_f32x8(0.0f, load_first_f32x8(pixels + (y * 16 + x * 8), 4) + load_first_f32x8(const_1 + panel * 8, 4)), 4);
          }
        }
      }
    }
  }
}

