#include "worker/backend/cpu/matmul.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "oneapi/dnnl/dnnl.h"

namespace sangam {
namespace {

// A job has a few dozen shapes; more are forgotten and made again.
constexpr size_t kMaxPrimitives = 1024;

absl::Status ToStatus(dnnl_status_t status) {
  if (status == dnnl_success) return absl::OkStatus();
  if (status == dnnl_out_of_memory) {
    return absl::ResourceExhaustedError("oneDNN: no memory for a matrix product");
  }
  return absl::InternalError(
      absl::StrCat("oneDNN: matrix product failed with status ", static_cast<int>(status)));
}

// An object of oneDNN's, with the function that ends it.
template <typename T>
struct Destroy {
  dnnl_status_t (*destroy)(T*);
  void operator()(T* object) const { destroy(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Destroy<T>>;

template <typename T>
Owned<T> Own(T* object, dnnl_status_t (*destroy)(T*)) {
  return Owned<T>(object, Destroy<T>{destroy});
}

// Sizes, transpositions, whether c is added to.
using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool>;

Key KeyOf(const MatmulCall& call) {
  return {call.m, call.n, call.k, call.transpose_a, call.transpose_b, call.accumulate};
}

absl::StatusOr<dnnl_memory_desc_t> Describe(int64_t rows, int64_t cols, bool transposed,
                                            dnnl_data_type_t type) {
  const dnnl_dims_t sizes = {rows, cols};
  const dnnl_dims_t strides = {transposed ? 1 : cols, transposed ? rows : 1};
  dnnl_memory_desc_t description;
  RETURN_IF_ERROR(
      ToStatus(dnnl_memory_desc_init_by_strides(&description, 2, sizes, type, strides)));
  return description;
}

struct Product {
  Owned<dnnl_memory> a, b, c;
  Owned<dnnl_primitive> primitive;
};

class OneDnnMatmul : public CpuMatmul {
 public:
  explicit OneDnnMatmul(FactorFormat format)
      : type_(format == FactorFormat::kBf16 ? dnnl_bf16 : dnnl_f32),
        engine_(Own<dnnl_engine>(nullptr, dnnl_engine_destroy)),
        stream_(Own<dnnl_stream>(nullptr, dnnl_stream_destroy)) {}

  absl::Status Initialize() {
    dnnl_engine_t engine = nullptr;
    RETURN_IF_ERROR(ToStatus(dnnl_engine_create(&engine, dnnl_cpu, 0)));
    engine_.reset(engine);
    dnnl_stream_t stream = nullptr;
    RETURN_IF_ERROR(ToStatus(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags)));
    stream_.reset(stream);
    return absl::OkStatus();
  }

  absl::Status Multiply(const MatmulCall& call) override {
    auto known = products_.find(KeyOf(call));
    if (known == products_.end()) {
      ASSIGN_OR_RETURN(Product product, Make(call));
      if (products_.size() >= kMaxPrimitives) products_.clear();
      known = products_.emplace(KeyOf(call), std::move(product)).first;
    }
    const Product& product = known->second;
    // oneDNN takes what it reads as not constant, and does not write to it.
    RETURN_IF_ERROR(
        ToStatus(dnnl_memory_set_data_handle(product.a.get(), const_cast<void*>(call.a))));
    RETURN_IF_ERROR(
        ToStatus(dnnl_memory_set_data_handle(product.b.get(), const_cast<void*>(call.b))));
    RETURN_IF_ERROR(ToStatus(dnnl_memory_set_data_handle(product.c.get(), call.c)));
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, product.a.get()},
                                         {DNNL_ARG_WEIGHTS, product.b.get()},
                                         {DNNL_ARG_DST, product.c.get()}};
    RETURN_IF_ERROR(
        ToStatus(dnnl_primitive_execute(product.primitive.get(), stream_.get(), 3, arguments)));
    return ToStatus(dnnl_stream_wait(stream_.get()));
  }

 private:
  absl::StatusOr<Owned<dnnl_memory>> MakeMemory(const dnnl_memory_desc_t& description) {
    dnnl_memory_t memory = nullptr;
    RETURN_IF_ERROR(
        ToStatus(dnnl_memory_create(&memory, &description, engine_.get(), DNNL_MEMORY_NONE)));
    return Own(memory, dnnl_memory_destroy);
  }

  absl::StatusOr<Product> Make(const MatmulCall& call) {
    ASSIGN_OR_RETURN(const dnnl_memory_desc_t a, Describe(call.m, call.k, call.transpose_a, type_));
    ASSIGN_OR_RETURN(const dnnl_memory_desc_t b, Describe(call.k, call.n, call.transpose_b, type_));
    ASSIGN_OR_RETURN(const dnnl_memory_desc_t c, Describe(call.m, call.n, false, dnnl_f32));
    dnnl_matmul_desc_t operation;
    RETURN_IF_ERROR(ToStatus(dnnl_matmul_desc_init(&operation, &a, &b, nullptr, &c)));

    dnnl_primitive_attr_t attributes = nullptr;
    RETURN_IF_ERROR(ToStatus(dnnl_primitive_attr_create(&attributes)));
    const auto attributes_owned = Own(attributes, dnnl_primitive_attr_destroy);
    dnnl_post_ops_t after = nullptr;
    RETURN_IF_ERROR(ToStatus(dnnl_post_ops_create(&after)));
    const auto after_owned = Own(after, dnnl_post_ops_destroy);
    if (call.accumulate) {
      RETURN_IF_ERROR(ToStatus(dnnl_post_ops_append_sum(after, 1.0f)));
      RETURN_IF_ERROR(ToStatus(dnnl_primitive_attr_set_post_ops(attributes, after)));
    }
    dnnl_primitive_desc_t chosen = nullptr;
    RETURN_IF_ERROR(ToStatus(
        dnnl_primitive_desc_create(&chosen, &operation, attributes, engine_.get(), nullptr)));
    const auto chosen_owned = Own(chosen, dnnl_primitive_desc_destroy);
    dnnl_primitive_t primitive = nullptr;
    RETURN_IF_ERROR(ToStatus(dnnl_primitive_create(&primitive, chosen)));
    Owned<dnnl_primitive> primitive_owned = Own(primitive, dnnl_primitive_destroy);
    ASSIGN_OR_RETURN(Owned<dnnl_memory> a_memory, MakeMemory(a));
    ASSIGN_OR_RETURN(Owned<dnnl_memory> b_memory, MakeMemory(b));
    ASSIGN_OR_RETURN(Owned<dnnl_memory> c_memory, MakeMemory(c));
    return Product{std::move(a_memory), std::move(b_memory), std::move(c_memory),
                   std::move(primitive_owned)};
  }

  dnnl_data_type_t type_;
  Owned<dnnl_engine> engine_;
  Owned<dnnl_stream> stream_;
  std::map<Key, Product> products_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuMatmul>> CpuMatmul::Create(FactorFormat format) {
  auto matmul = std::make_unique<OneDnnMatmul>(format);
  RETURN_IF_ERROR(matmul->Initialize());
  return matmul;
}

}  // namespace sangam
