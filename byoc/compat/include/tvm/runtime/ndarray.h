/* As far as generated C++ uses it. Source: ndarray.h of TVM 0.17, whose names these are. */
#include <tvm/runtime/packed_func.h>
