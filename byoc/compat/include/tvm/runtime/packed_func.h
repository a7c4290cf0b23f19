/* Packed functions, typed ones and arrays of tensors, as far as generated C++ uses them. A function that takes one
 * Array<NDArray> (an __init_ function) gets all of its arguments. Source: packed_func.h, container/array.h and ndarray.h
 * of TVM 0.17, whose names these are; the code is our own. */
#ifndef TVM_RUNTIME_PACKED_FUNC_H_
#define TVM_RUNTIME_PACKED_FUNC_H_
#ifndef __cplusplus
#error "tvm/runtime/packed_func.h is C++: make the module with fmt cc, or write C functions int32_t NAME(TVMValue*, int*, int, TVMValue*, int*) in the place of TVM_DLL_EXPORT_TYPED_FUNC"
#endif
#include <stdio.h>
#include <tvm/runtime/c_backend_api.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" __attribute__((weak, visibility("default"))) char byoc_cxx_error[512] = "";

namespace tvm {
namespace runtime {

class NDArray {
 public:
  NDArray() = default;
  explicit NDArray(const DLTensor* tensor) : tensor_(tensor) {}
  const DLTensor* operator->() const { return tensor_; }
  bool defined() const { return tensor_ != nullptr; }

 private:
  const DLTensor* tensor_ = nullptr;
};

template <typename T>
class Array {
 public:
  Array() = default;
  Array(std::initializer_list<T> items) : items_(items) {}
  const T& operator[](int64_t index) const { return items_.at(static_cast<size_t>(index)); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  void push_back(const T& item) { items_.push_back(item); }
  typename std::vector<T>::const_iterator begin() const { return items_.begin(); }
  typename std::vector<T>::const_iterator end() const { return items_.end(); }

 private:
  std::vector<T> items_;
};

namespace detail {

struct Given {
  TVMValue* args;
  int count;
};

template <typename T>
struct Argument;  // of other types there is none: packed functions of a region take tensors

template <>
struct Argument<DLTensor*> {
  static DLTensor* of(const Given& given, size_t at) { return static_cast<DLTensor*>(given.args[at].v_handle); }
};

template <>
struct Argument<const DLTensor*> {
  static const DLTensor* of(const Given& given, size_t at) { return Argument<DLTensor*>::of(given, at); }
};

template <>
struct Argument<NDArray> {
  static NDArray of(const Given& given, size_t at) { return NDArray(Argument<DLTensor*>::of(given, at)); }
};

template <>
struct Argument<Array<NDArray>> {
  static Array<NDArray> of(const Given& given, size_t) {
    Array<NDArray> all;
    for (int k = 0; k < given.count; ++k) all.push_back(Argument<NDArray>::of(given, static_cast<size_t>(k)));
    return all;
  }
};

template <typename... Args>
struct TakesAll : std::false_type {};
template <>
struct TakesAll<Array<NDArray>> : std::true_type {};

template <typename R, typename... Args, size_t... At>
int called(R (*function)(Args...), const Given& given, std::index_sequence<At...>) {
  if (!TakesAll<typename std::decay<Args>::type...>::value && given.count != static_cast<int>(sizeof...(Args)))
    throw std::runtime_error("it takes " + std::to_string(sizeof...(Args)) + " tensors and was given " +
                             std::to_string(given.count));
  if constexpr (std::is_void<R>::value) {
    function(Argument<typename std::decay<Args>::type>::of(given, At)...);
    return 0;
  } else {
    return static_cast<int>(function(Argument<typename std::decay<Args>::type>::of(given, At)...));
  }
}

template <typename R, typename... Args>
int guarded(R (*function)(Args...), TVMValue* args, int count) {
  byoc_cxx_error[0] = 0;
  try {
    return called(function, Given{args, count}, std::index_sequence_for<Args...>());
  } catch (const std::exception& error) {
    snprintf(byoc_cxx_error, sizeof byoc_cxx_error, "%s", error.what());
  } catch (...) {
    snprintf(byoc_cxx_error, sizeof byoc_cxx_error, "it threw what is no std::exception");
  }
  return -1;
}

}  // namespace detail
}  // namespace runtime
}  // namespace tvm

#define TVM_DLL_EXPORT_TYPED_FUNC(ExportName, Function)                                                        \
  extern "C" TVM_DLL int ExportName(TVMValue* args, int* type_code, int num_args, TVMValue* out_value,          \
                                    int* out_type_code, void* resource_handle) {                                \
    (void)type_code, (void)out_value, (void)out_type_code, (void)resource_handle;                               \
    return ::tvm::runtime::detail::guarded(Function, args, num_args);                                           \
  }
#endif
