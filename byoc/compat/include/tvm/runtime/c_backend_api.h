/* The signature of packed functions in C. Source: c_backend_api.h of TVM 0.17. */
#ifndef TVM_RUNTIME_C_BACKEND_API_H_
#define TVM_RUNTIME_C_BACKEND_API_H_
#include <tvm/runtime/c_runtime_api.h>

typedef int (*TVMBackendPackedCFunc)(
    TVMValue* args, int* type_codes, int num_args, TVMValue* out_ret_value, int* out_ret_tcode, void* resource_handle);
#endif
