/* What C that was generated for TVM's packed functions needs of its runtime. Source: c_runtime_api.h of TVM 0.17. */
#ifndef TVM_RUNTIME_C_RUNTIME_API_H_
#define TVM_RUNTIME_C_RUNTIME_API_H_
#include <dlpack/dlpack.h>

#ifndef TVM_DLL
#define TVM_DLL __attribute__((visibility("default")))
#endif
typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;
typedef enum { kTVMNullptr = 4, kTVMDLTensorHandle = 7 } TVMArgTypeCode;
#endif
