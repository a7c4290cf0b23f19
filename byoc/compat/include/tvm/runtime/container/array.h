/* As far as generated C++ uses it. Source: container/array.h of TVM 0.17, whose names these are. */
#include <tvm/runtime/packed_func.h>
