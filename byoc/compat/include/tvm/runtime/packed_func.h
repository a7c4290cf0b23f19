/* Not here: what TVM's runtime has in C++. An integration's code is compiled as C. */
#error "tvm/runtime/packed_func.h is C++, and byoc compiles C: write int32_t NAME(TVMValue*, int*, int, TVMValue*, int*) in the place of TVM_DLL_EXPORT_TYPED_FUNC, with constants in the code"
