// How fast the CUDA backend computes on this machine's GPU.
//
//   bazel run --config=cuda //tests/bench:gpu [-- --peak_tflops=N --small]
//
//   products   beside the same call of cuBLAS alone, in turns
//   attention  forward and backward
//   step       a forward and backward pass of a GPT-2 of 124 million parameters beside the sum of
//              its products, and the share of the GPU's peak that it uses
//   graphs     passes with and without CUDA graphs, in turns: of that model, and of a small
//              perceptron
//   overlap    copies in both directions beside products
//   exchange   steps of a whole worker with a server over loopback, beside steps without one
//
// Wall times around what was asked for and a wait for it. Medians over 7 samples of at least 20 ms,
// [min..max].
//   --peak_tflops=N  what the GPU can do in BF16, for the share (dense, from its data sheet);
//   without it none is printed
//   --small          sizes for a slow machine: shows that the program works, not how fast

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "proto/model.pb.h"
#include "tests/bench/exchange_step.h"
#include "tests/bench/model_step.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/precision.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

using testing::DeviceMatrix;
using testing::RandomFloats;

struct Options {
  double peak_tflops = 0;
  bool small = false;
};

double Now() { return absl::ToDoubleSeconds(Clock::Real().Steady()); }

struct Seconds {
  double median, min, max;
};

Seconds Summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), times.back()};
}

// Seconds of one of each `work`, measured in turns: sample by sample one of each.
std::vector<Seconds> Measure(const Options& options, Backend* backend,
                             const std::vector<std::function<void()>>& works) {
  const int samples = options.small ? 1 : 7;
  const double shortest = options.small ? 0 : 0.02;
  const auto sample = [backend](const std::function<void()>& work, int repeats) {
    const double start = Now();
    for (int i = 0; i < repeats; ++i) work();
    CheckOk(backend->Synchronize());
    // The vendor's calls are in another stream.
    SANGAM_CHECK(cudaDeviceSynchronize() == cudaSuccess);
    return Now() - start;
  };
  std::vector<int> repeats(works.size(), 1);
  for (size_t w = 0; w < works.size(); ++w) {
    sample(works[w], 1);
    while (sample(works[w], repeats[w]) < shortest) repeats[w] *= 2;
  }
  std::vector<std::vector<double>> times(works.size());
  for (int s = 0; s < samples; ++s) {
    for (size_t w = 0; w < works.size(); ++w) {
      times[w].push_back(sample(works[w], repeats[w]) / repeats[w]);
    }
  }
  std::vector<Seconds> result;
  for (std::vector<double>& of_one : times) result.push_back(Summary(std::move(of_one)));
  return result;
}

// Millions of millions of operations per second.
std::string Rate(double operations, const Seconds& t) {
  const double tera = operations * 1e-12;
  return absl::StrFormat("%.1f [%.1f..%.1f]", tera / t.median, tera / t.max, tera / t.min);
}

const char* Name(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "FP32";
    case Precision::kTf32:
      return "TF32";
    case Precision::kBf16:
      return "BF16";
  }
  return "?";
}

void CheckCublas(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    std::fprintf(stderr, "cuBLAS: %s\n", cublasGetStatusString(status));
    SANGAM_CHECK(false);
  }
}

// The vendor's product alone: y = x w^T, row-major, all operands where and as it wants them.
class Vendor {
 public:
  explicit Vendor(Precision precision) : precision_(precision) {
    CheckCublas(cublasCreate(&handle_));
  }
  ~Vendor() { cublasDestroy(handle_); }
  Vendor(const Vendor&) = delete;
  Vendor& operator=(const Vendor&) = delete;

  // BF16 factors are read as such: their bits do not matter, only how many there are.
  void Multiply(ConstMatrix x, ConstMatrix w, Matrix y) {
    const float one = 1;
    const float zero = 0;
    const bool bf16 = precision_ == Precision::kBf16;
    const cudaDataType_t type = bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasComputeType_t compute =
        precision_ == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    // Column-major: y^T = w x^T.
    CheckCublas(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(y.cols),
                             static_cast<int>(y.rows), static_cast<int>(x.cols), &one, w.data, type,
                             static_cast<int>(x.cols), x.data, type, static_cast<int>(x.cols),
                             &zero, y.data, CUDA_R_32F, static_cast<int>(y.cols), compute,
                             CUBLAS_GEMM_DEFAULT));
  }

 private:
  Precision precision_;
  cublasHandle_t handle_ = nullptr;
};

struct Product {
  int64_t rows, in, out;
  double operations() const { return 2.0 * static_cast<double>(rows * in * out); }
};

// The three products of a linear layer: y = x w^T, dx = dy w, dw += dy^T x.
std::vector<std::function<void()>> ProductsOfLayer(Backend* backend, const DeviceMatrix& x,
                                                   const DeviceMatrix& w, const DeviceMatrix& y) {
  GemmArguments forward;
  forward.a = x.view();
  forward.b = w.view();
  forward.transpose_b = true;
  forward.c = y.view();
  GemmArguments input;
  input.a = y.view();
  input.b = w.view();
  input.c = x.view();
  GemmArguments weight;
  weight.a = y.view();
  weight.transpose_a = true;
  weight.b = x.view();
  weight.c = w.view();
  weight.accumulate = true;
  std::vector<std::function<void()>> works;
  for (const GemmArguments& arguments : {forward, input, weight}) {
    works.emplace_back([backend, arguments] { CheckOk(backend->Gemm(arguments)); });
  }
  return works;
}

void PrintProducts(const Options& options, Precision precision) {
  const auto backend = ValueOf(CreateBackend("cuda", precision));
  std::printf("\nproducts, %s, TFLOP/s\n%-22s %-24s %-24s %-24s %-24s %s\n", Name(precision),
              "rows x in x out", "cuBLAS alone, y = x w^T", "y = x w^T", "dx = dy w",
              "dw += dy^T x", "forward / cuBLAS");
  std::vector<Product> products = {{8192, 768, 2304}, {8192, 768, 768},   {8192, 768, 3072},
                                   {8192, 3072, 768}, {8192, 768, 50304}, {8192, 8192, 8192},
                                   {64, 784, 512}};
  if (options.small) products = {{32, 48, 64}, {33, 17, 65}};
  for (const Product& product : products) {
    const DeviceMatrix x(backend.get(), product.rows, product.in,
                         RandomFloats(product.rows * product.in, 1));
    const DeviceMatrix w(backend.get(), product.out, product.in,
                         RandomFloats(product.out * product.in, 2));
    const DeviceMatrix y(backend.get(), product.rows, product.out);
    Vendor vendor(precision);
    std::vector<std::function<void()>> works = ProductsOfLayer(backend.get(), x, w, y);
    works.emplace_back([&] { vendor.Multiply(x.view(), w.view(), y.view()); });
    const std::vector<Seconds> times = Measure(options, backend.get(), works);
    std::printf("%-22s %-24s",
                absl::StrCat(product.rows, "x", product.in, "x", product.out).c_str(),
                Rate(product.operations(), times[3]).c_str());
    for (int i = 0; i < 3; ++i) std::printf(" %-24s", Rate(product.operations(), times[i]).c_str());
    std::printf(" %.2f\n", times[3].median / times[0].median);
  }
}

// Multiplications and additions of the products that the causal mask leaves: 2 forward, 5 backward
// (the scores are computed again).
double AttentionOperations(int64_t sequences, int64_t positions, int64_t width, int products) {
  return products * 2.0 * static_cast<double>(sequences * width) *
         static_cast<double>(positions * (positions + 1) / 2);
}

void PrintAttention(const Options& options, Precision precision) {
  const auto backend = ValueOf(CreateBackend("cuda", precision));
  std::printf("\ncausal attention, %s, TFLOP/s\n%-36s %-24s %-24s\n", Name(precision),
              "sequences x positions, heads x width", "forward", "backward");
  struct Sizes {
    int64_t sequences, positions, heads, width;
  };
  std::vector<Sizes> all = {{8, 1024, 12, 64}, {2, 4096, 12, 64}, {8, 1024, 8, 128}};
  if (options.small) all = {{1, 40, 2, 16}};
  for (const Sizes& s : all) {
    const int64_t rows = s.sequences * s.positions;
    const int64_t cols = s.heads * s.width;
    AttentionShape shape;
    shape.positions = s.positions;
    shape.heads = s.heads;
    const DeviceMatrix qkv(backend.get(), rows, 3 * cols, RandomFloats(rows * 3 * cols, 1));
    const DeviceMatrix out(backend.get(), rows, cols);
    const DeviceMatrix log_sum(backend.get(), rows, s.heads);
    const DeviceMatrix dout(backend.get(), rows, cols, RandomFloats(rows * cols, 2));
    const DeviceMatrix dqkv(backend.get(), rows, 3 * cols);
    const std::vector<Seconds> times = Measure(
        options, backend.get(),
        {[&] { CheckOk(backend->CausalAttention(shape, qkv.view(), out.view(), log_sum.view())); },
         [&] {
           CheckOk(backend->CausalAttentionBackward(shape, qkv.view(), out.view(), log_sum.view(),
                                                    dout.view(), dqkv.view()));
         }});
    std::printf(
        "%-36s %-24s %-24s\n",
        absl::StrCat(s.sequences, " x ", s.positions, ", ", s.heads, " x ", s.width).c_str(),
        Rate(AttentionOperations(s.sequences, s.positions, cols, 2), times[0]).c_str(),
        Rate(AttentionOperations(s.sequences, s.positions, cols, 5), times[1]).c_str());
  }
}

struct GptSize {
  int64_t sequences, positions, vocabulary, width, heads, layers;
};

v1::ModelSpec Gpt(const GptSize& size) {
  v1::ModelSpec model;
  model.add_input_shape(static_cast<uint64_t>(size.positions));
  v1::BlockSpec* embed = model.add_block();
  embed->set_name("embed");
  v1::EmbeddingSpec* embedding = embed->add_layer()->mutable_embedding();
  embedding->set_vocabulary(static_cast<uint64_t>(size.vocabulary));
  embedding->set_width(static_cast<uint64_t>(size.width));
  embed->add_layer()->mutable_position_embedding();
  for (int64_t l = 0; l < size.layers; ++l) {
    v1::BlockSpec* block = model.add_block();
    block->set_name(absl::StrCat("t", l));
    v1::TransformerSpec* transformer = block->add_layer()->mutable_transformer();
    transformer->set_heads(static_cast<uint64_t>(size.heads));
    transformer->set_hidden(static_cast<uint64_t>(4 * size.width));
  }
  v1::BlockSpec* head = model.add_block();
  head->set_name("head");
  head->add_layer()->mutable_rms_norm();
  head->add_layer()->mutable_tied_head()->set_block("embed");
  return model;
}

// Seconds of all products of a step, each kind measured by itself.
double SecondsOfProducts(const Options& options, Backend* backend, const GptSize& size) {
  const int64_t rows = size.sequences * size.positions;
  struct Counted {
    Product product;
    int64_t times;
  };
  const std::vector<Counted> all = {{{rows, size.width, 3 * size.width}, size.layers},
                                    {{rows, size.width, size.width}, size.layers},
                                    {{rows, size.width, 4 * size.width}, size.layers},
                                    {{rows, 4 * size.width, size.width}, size.layers},
                                    {{rows, size.width, size.vocabulary}, 1}};
  double seconds = 0;
  for (const Counted& counted : all) {
    const Product& product = counted.product;
    const DeviceMatrix x(backend, product.rows, product.in,
                         RandomFloats(product.rows * product.in, 1));
    const DeviceMatrix w(backend, product.out, product.in,
                         RandomFloats(product.out * product.in, 2));
    const DeviceMatrix y(backend, product.rows, product.out);
    for (const Seconds& t : Measure(options, backend, ProductsOfLayer(backend, x, w, y))) {
      seconds += static_cast<double>(counted.times) * t.median;
    }
  }
  return seconds;
}

void PrintStep(const Options& options, Precision precision) {
  const auto backend = ValueOf(CreateBackend("cuda", precision));
  GptSize size = {8, 1024, 50257, 768, 12, 12};
  if (options.small) size = {2, 16, 101, 32, 2, 2};
  v1::LossSpec loss;
  loss.mutable_token_cross_entropy();
  double step = 0;
  int64_t parameters = 0;
  Seconds t = {};
  {
    ModelStep model(backend.get(), Gpt(size), loss, size.sequences, size.vocabulary);
    parameters = model.parameters();
    t = Measure(options, backend.get(), {[&] { model.Run(); }})[0];
    step = t.median;
  }
  const double products = SecondsOfProducts(options, backend.get(), size);
  const auto tokens = static_cast<double>(size.sequences * size.positions);
  // Every weight takes part in one multiplication and addition forward and two backward; attention
  // in 2 products forward and 4 backward, the one that is computed again not counted.
  const double operations = 6 * static_cast<double>(parameters) * tokens +
                            static_cast<double>(size.layers) *
                                AttentionOperations(size.sequences, size.positions, size.width, 6);
  std::printf(
      "\nstep of a GPT, %s: %d parameters, %d x %d tokens\n"
      "  step %.2f ms [%.2f..%.2f], its products alone %.2f ms, ratio %.3f, %.0f tokens/s, %.1f "
      "TFLOP/s",
      Name(precision), static_cast<int>(parameters), static_cast<int>(size.sequences),
      static_cast<int>(size.positions), step * 1e3, t.min * 1e3, t.max * 1e3, products * 1e3,
      step / products, tokens / step, operations / step * 1e-12);
  if (options.peak_tflops > 0) {
    std::printf(", %.3f of the peak", operations / step * 1e-12 / options.peak_tflops);
  }
  std::printf("\n");
}

v1::ModelSpec Perceptron(uint64_t width, int layers) {
  v1::ModelSpec model;
  model.add_input_shape(width);
  for (int l = 0; l < layers; ++l) {
    v1::BlockSpec* block = model.add_block();
    block->set_name(absl::StrCat("layer", l));
    block->add_layer()->mutable_linear()->set_out_features(width);
    if (l + 1 < layers) block->add_layer()->mutable_relu();
  }
  return model;
}

void PrintGraphs(const Options& options) {
  struct Sizes {
    std::string name;
    v1::ModelSpec model;
    bool tokens;
    int64_t rows, largest_input;
  };
  GptSize gpt = {8, 1024, 50257, 768, 12, 12};
  if (options.small) gpt = {2, 16, 101, 32, 2, 2};
  const std::vector<Sizes> all = {
      {"the GPT", Gpt(gpt), true, gpt.sequences, gpt.vocabulary},
      {"a perceptron, 4 x 256, 64 samples", Perceptron(256, 4), false, 64, 2}};
  for (const Sizes& sizes : all) {
    const auto backend = ValueOf(CreateBackend("cuda", Precision::kBf16));
    v1::LossSpec loss;
    if (sizes.tokens) {
      loss.mutable_token_cross_entropy();
    } else {
      loss.mutable_softmax_cross_entropy();
    }
    ModelStep model(backend.get(), sizes.model, loss, sizes.rows, sizes.largest_input);
    const auto in_sequence = [&] {
      backend->BeginSequence();
      model.Run();
      CheckOk(backend->EndSequence());
    };
    // Recorded before it is measured.
    for (int i = 0; i < 3; ++i) in_sequence();
    const std::vector<Seconds> times =
        Measure(options, backend.get(), {[&] { model.Run(); }, in_sequence});
    std::printf(
        "\ngraphs, %s, BF16: a pass %.3f ms [%.3f..%.3f] without, %.3f ms [%.3f..%.3f] with, ratio "
        "%.3f\n",
        sizes.name.c_str(), times[0].median * 1e3, times[0].min * 1e3, times[0].max * 1e3,
        times[1].median * 1e3, times[1].min * 1e3, times[1].max * 1e3,
        times[1].median / times[0].median);
  }
}

void PrintExchange(const Options& options) {
  ExchangeJob job;
  if (options.small) {
    job.width = 32;
    job.layers = 3;
    job.batch = 8;
    job.steps = 12;
    job.page_elements = 256;
  }
  std::printf("\nworker and server over loopback: a perceptron of %d parameters, batches of %d\n",
              static_cast<int>(NumParameters(job)), static_cast<int>(job.batch));
  for (const bool graphs : {true, false}) {
    job.graphs = graphs;
    const double without = SecondsOfStep(job, Exchange::kNothing);
    const double with = SecondsOfStep(job, Exchange::kServer);
    std::printf(
        "  graphs %s: a step %.3f ms, without push and pull %.3f ms: %.3f ms lost to push and "
        "pull\n",
        graphs ? "on" : "off", with * 1e3, without * 1e3, (with - without) * 1e3);
  }
}

void PrintOverlap(const Options& options) {
  const auto backend = ValueOf(CreateBackend("cuda", Precision::kBf16));
  const int64_t n = options.small ? 64 : 4096;
  const int64_t elements = options.small ? 4096 : int64_t{16} << 20;
  const DeviceMatrix x(backend.get(), n, n, RandomFloats(n * n, 1));
  const DeviceMatrix w(backend.get(), n, n, RandomFloats(n * n, 2));
  const DeviceMatrix y(backend.get(), n, n);
  const DeviceMatrix up(backend.get(), 1, elements);
  const DeviceMatrix down(backend.get(), 1, elements);
  std::vector<float> from(static_cast<size_t>(elements));
  std::vector<float> to(static_cast<size_t>(elements));
  const auto pin_from = ValueOf(backend->Pin(from.data(), elements));
  const auto pin_to = ValueOf(backend->Pin(to.data(), elements));
  const std::function<void()> forward = ProductsOfLayer(backend.get(), x, w, y)[0];
  // As many products as take about as long as the copies.
  const auto copy = [&] {
    const auto uploaded = ValueOf(backend->UploadBeside(from.data(), up.view(), nullptr));
    const auto downloaded = ValueOf(backend->DownloadBeside(down.view(), to.data()));
    CheckOk(uploaded->Wait());
    CheckOk(downloaded->Wait());
  };
  const std::vector<Seconds> alone = Measure(options, backend.get(), {forward, copy});
  const int products =
      std::max(1, static_cast<int>(alone[1].median / std::max(alone[0].median, 1e-9)));
  const auto compute = [&] {
    for (int i = 0; i < products; ++i) forward();
  };
  const std::vector<Seconds> times = Measure(
      options, backend.get(),
      {compute, copy, [&] {
         const auto uploaded = ValueOf(backend->UploadBeside(from.data(), up.view(), nullptr));
         const auto downloaded = ValueOf(backend->DownloadBeside(down.view(), to.data()));
         compute();
         CheckOk(uploaded->Wait());
         CheckOk(downloaded->Wait());
       }});
  const double hidden = times[0].median + times[1].median - times[2].median;
  std::printf(
      "\ncopies beside products: %d products %.2f ms, %.0f MiB up and down %.2f ms, both %.2f ms: "
      "%.2f of the shorter one is hidden\n",
      products, times[0].median * 1e3, static_cast<double>(elements) * 4 / (1 << 20),
      times[1].median * 1e3, times[2].median * 1e3,
      hidden / std::min(times[0].median, times[1].median));
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--small") {
      options.small = true;
    } else if (!absl::StartsWith(argument, "--peak_tflops=") ||
               !absl::SimpleAtod(argument.substr(14), &options.peak_tflops)) {
      std::fprintf(stderr, "gpu: found \"%s\", expected --peak_tflops=N or --small\n",
                   argument.c_str());
      return 2;
    }
  }
  const absl::StatusOr<BackendDevice> device = DescribeBackend("cuda");
  if (!device.ok()) {
    std::fprintf(stderr, "gpu: %s\n", std::string(device.status().message()).c_str());
    return 1;
  }
  std::printf("%s, %.1f GiB, compute capability %s, driver %s, runtime %s\n", device->name.c_str(),
              static_cast<double>(device->memory_bytes) / (1 << 30),
              device->compute_capability.c_str(), device->driver.c_str(), device->runtime.c_str());
  const Precision precisions[] = {Precision::kFp32, Precision::kTf32, Precision::kBf16};
  for (const Precision precision : precisions) PrintProducts(options, precision);
  for (const Precision precision : precisions) PrintAttention(options, precision);
  for (const Precision precision : precisions) PrintStep(options, precision);
  PrintGraphs(options);
  PrintOverlap(options);
  PrintExchange(options);
  return 0;
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) { return sangam::Main(argc, argv); }
