#include "tests/testing/lazy_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/cpu/cpu_backend.h"
#include "worker/backend/precision.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::testing {

LazyDevice::Allocation::~Allocation() {
  if (address != nullptr) munmap(address, bytes);
}

void LazyDevice::Reset(Haste haste) {
  MutexLock lock(&mutex_);
  haste_ = haste;
  fail_at_ = done_ = asked_ = beyond_reserve_ = times_pinned_ = 0;
  capacity_ = uint64_t{1} << 32;
  failure_ = absl::OkStatus();
}

void LazyDevice::FailAt(uint64_t operation) {
  MutexLock lock(&mutex_);
  fail_at_ = operation == 0 ? 0 : done_ + operation;
}

void LazyDevice::SetMemory(uint64_t bytes) {
  MutexLock lock(&mutex_);
  capacity_ = bytes;
}

uint64_t LazyDevice::done() const {
  MutexLock lock(&mutex_);
  return done_;
}

uint64_t LazyDevice::beyond_reserve() const {
  MutexLock lock(&mutex_);
  return beyond_reserve_;
}

uint64_t LazyDevice::used() const {
  MutexLock lock(&mutex_);
  return used_;
}

size_t LazyDevice::pins() const {
  MutexLock lock(&mutex_);
  return pinned_.size();
}

uint64_t LazyDevice::times_pinned() const {
  MutexLock lock(&mutex_);
  return times_pinned_;
}

void LazyDevice::Do(Stream* stream, const Operation& operation) {
  if (!failure_.ok()) return;
  ++done_;
  if (done_ == fail_at_) {
    failure_ = absl::InternalError(absl::StrCat("lazy device: operation ", done_, " failed"));
    return;
  }
  const absl::Status status = operation.run();
  if (!status.ok() && stream->fault != nullptr) stream->fault->Update(status);
}

absl::Status LazyDevice::Advance(const Point& point) {
  Stream* const stream = point.stream.get();
  while (stream->done < point.number) {
    const Operation operation = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    for (const Point& earlier : operation.after) (void)Advance(earlier);
    Do(stream, operation);
    ++stream->done;
  }
  return failure_;
}

class LazyEvent : public BackendEvent {
 public:
  LazyEvent(LazyDevice* device, std::vector<LazyDevice::Point> points)
      : device_(device), points_(std::move(points)) {}
  absl::Status Wait() const override {
    MutexLock lock(&device_->mutex_);
    for (const LazyDevice::Point& point : points_) (void)device_->Advance(point);
    return device_->failure_;
  }
  const std::vector<LazyDevice::Point>& points() const { return points_; }

 private:
  LazyDevice* const device_;
  const std::vector<LazyDevice::Point> points_;
};

class LazySums : public PendingSums {
 public:
  LazySums(LazyDevice* device, LazyDevice::Point point, std::shared_ptr<ClassificationSums> sums)
      : device_(device), point_(std::move(point)), sums_(std::move(sums)) {}
  absl::StatusOr<ClassificationSums> Get() override {
    MutexLock lock(&device_->mutex_);
    RETURN_IF_ERROR(device_->Advance(point_));
    return *sums_;
  }

 private:
  LazyDevice* const device_;
  const LazyDevice::Point point_;
  const std::shared_ptr<ClassificationSums> sums_;
};

class LazyPin : public HostPin {
 public:
  LazyPin(LazyDevice* device, const float* host) : device_(device), host_(host) {}
  ~LazyPin() override {
    MutexLock lock(&device_->mutex_);
    const auto entry = device_->pinned_.find(host_);
    if (--entry->second.second == 0) device_->pinned_.erase(entry);
  }

 private:
  LazyDevice* const device_;
  const float* const host_;
};

class LazyMemory : public BackendMemory {
 public:
  // `give_back` runs when it is freed.
  LazyMemory(float* address, int64_t size, std::function<void()> give_back)
      : BackendMemory(address, size), give_back_(std::move(give_back)) {}
  ~LazyMemory() override { give_back_(); }

 private:
  const std::function<void()> give_back_;
};

class LazyBackend : public Backend {
 public:
  LazyBackend(LazyDevice* device, Precision precision)
      : device_(device), cpu_(CreateCpuBackend(precision)) {
    for (auto* stream : {&compute_, &uploads_, &downloads_}) {
      *stream = std::make_shared<LazyDevice::Stream>();
      (*stream)->fault = &fault_;
    }
  }

  ~LazyBackend() override {
    MutexLock lock(&device_->mutex_);
    for (const auto& stream : {compute_, uploads_, downloads_}) {
      (void)device_->Advance({stream, stream->asked});
      stream->fault = nullptr;
    }
    device_->used_ -= reserved_;
  }

  absl::string_view name() const override { return "lazy"; }
  bool uses_host_memory() const override { return false; }

  absl::Status Reserve(int64_t num_elements) override {
    const uint64_t bytes = static_cast<uint64_t>(num_elements) * sizeof(float);
    MutexLock lock(&device_->mutex_);
    RETURN_IF_ERROR(Use(bytes));
    reserved_ += bytes;
    free_ += bytes;
    return absl::OkStatus();
  }

  absl::Status Synchronize() override {
    MutexLock lock(&device_->mutex_);
    for (const auto& stream : {compute_, uploads_, downloads_}) {
      (void)device_->Advance({stream, stream->asked});
    }
    RETURN_IF_ERROR(device_->failure_);
    return std::exchange(fault_, absl::OkStatus());
  }

  absl::StatusOr<std::unique_ptr<BackendEvent>> Record() override {
    MutexLock lock(&device_->mutex_);
    return EventOf(compute_);
  }

  absl::Status WaitFor(const BackendEvent& event) override { return LetWait(event, &waits_); }

  absl::StatusOr<std::unique_ptr<HostPin>> Pin(float* host, int64_t num_elements) override {
    if (host == nullptr || num_elements <= 0) return Backend::Pin(host, num_elements);
    MutexLock lock(&device_->mutex_);
    auto& pinned = device_->pinned_;
    auto entry = pinned.find(host);
    if (entry == pinned.end() || entry->second.first != num_elements) {
      const auto next = pinned.lower_bound(host);
      const bool follows = next == pinned.end() || next->first >= host + num_elements;
      const bool leads =
          next == pinned.begin() || std::prev(next)->first + std::prev(next)->second.first <= host;
      if (!follows || !leads) return absl::InternalError("lazy device: a part is pinned already");
      entry = pinned.emplace(host, std::make_pair(num_elements, 0)).first;
    }
    ++entry->second.second;
    ++device_->times_pinned_;
    return std::make_unique<LazyPin>(device_, host);
  }

 protected:
  absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t num_elements) override {
    const int64_t rounded = (num_elements + kAllocationElements - 1) / kAllocationElements;
    const uint64_t bytes = static_cast<uint64_t>(rounded * kAllocationElements) * sizeof(float);
    MutexLock lock(&device_->mutex_);
    const bool from_reserve = bytes <= free_;
    if (!from_reserve) {
      RETURN_IF_ERROR(Use(bytes));
      if (reserved_ > 0) ++device_->beyond_reserve_;
    } else {
      free_ -= bytes;
    }
    auto allocation = std::make_shared<LazyDevice::Allocation>();
    ASSIGN_OR_RETURN(allocation->real, FloatBuffer::Allocate(static_cast<size_t>(num_elements)));
    allocation->bytes = std::max<size_t>(4096, static_cast<size_t>(num_elements) * sizeof(float));
    void* const address = mmap(nullptr, allocation->bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) return absl::ResourceExhaustedError("no addresses");
    allocation->address = static_cast<float*>(address);
    float* const at = allocation->address;
    device_->allocations_[at] = std::move(allocation);
    return std::make_unique<LazyMemory>(at, num_elements, [this, at, bytes, from_reserve] {
      MutexLock lock(&device_->mutex_);
      device_->allocations_.erase(at);
      (from_reserve ? free_ : device_->used_) += from_reserve ? bytes : -bytes;
    });
  }

  absl::Status DoUpload(const float* host, Matrix to) override {
    RETURN_IF_ERROR(Bring(&to));
    return Compute([=](Backend*) { return CopyFloats(host, to.size(), to.data); });
  }
  absl::Status DoDownload(ConstMatrix from, float* host) override {
    RETURN_IF_ERROR(Bring(&from));
    return Compute([=](Backend*) { return CopyFloats(from.data, from.size(), host); });
  }

  absl::StatusOr<std::unique_ptr<BackendEvent>> DoUploadBeside(const float* host, Matrix to,
                                                               const BackendEvent* after) override {
    RETURN_IF_ERROR(Bring(&to));
    LazyDevice::Operation upload;
    upload.run = [=] { return CopyFloats(host, to.size(), to.data); };
    if (after != nullptr) RETURN_IF_ERROR(LetWait(*after, &upload.after));
    MutexLock lock(&device_->mutex_);
    Ask(uploads_, std::move(upload), device_->haste_ == LazyDevice::Haste::kUploads);
    return EventOf(uploads_);
  }

  absl::StatusOr<std::unique_ptr<BackendEvent>> DoDownloadBeside(ConstMatrix from,
                                                                 float* host) override {
    RETURN_IF_ERROR(Bring(&from));
    LazyDevice::Operation download;
    download.run = [=] { return CopyFloats(from.data, from.size(), host); };
    download.after = waits_;
    MutexLock lock(&device_->mutex_);
    download.after.push_back({compute_, compute_->asked});
    Ask(downloads_, std::move(download), false);
    return EventOf(downloads_);
  }

  absl::Status DoFill(float value, Matrix out) override {
    RETURN_IF_ERROR(Bring(&out));
    return Compute([=](Backend* cpu) { return cpu->Fill(value, out); });
  }
  absl::Status DoCopy(ConstMatrix in, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute([=](Backend* cpu) { return cpu->Copy(in, out); });
  }
  absl::Status DoGemm(const GemmArguments& arguments) override {
    GemmArguments gemm = arguments;
    RETURN_IF_ERROR(Bring(&gemm.a, &gemm.b, &gemm.c));
    if (gemm.epilogue != Epilogue::kNone) RETURN_IF_ERROR(Bring(&gemm.bias));
    return Compute([=](Backend* cpu) { return cpu->Gemm(gemm); });
  }
  absl::Status DoSumRows(ConstMatrix in, bool accumulate, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute([=](Backend* cpu) { return cpu->SumRows(in, accumulate, out); });
  }
  absl::Status DoActivate(Activation activation, ConstMatrix in, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute([=](Backend* cpu) { return cpu->Activate(activation, in, out); });
  }
  absl::Status DoActivateBackward(Activation activation, ConstMatrix kept,
                                  ConstMatrix output_gradient, Matrix input_gradient) override {
    RETURN_IF_ERROR(Bring(&kept, &output_gradient, &input_gradient));
    return Compute([=](Backend* cpu) {
      return cpu->ActivateBackward(activation, kept, output_gradient, input_gradient);
    });
  }
  absl::Status DoDropout(const DropoutAddress& address, float rate, ConstMatrix in,
                         Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute(
        [=, address = address](Backend* cpu) { return cpu->Dropout(address, rate, in, out); });
  }
  absl::Status DoAdd(ConstMatrix a, ConstMatrix b, Matrix out) override {
    RETURN_IF_ERROR(Bring(&a, &b, &out));
    return Compute([=](Backend* cpu) { return cpu->Add(a, b, out); });
  }
  absl::Status DoAddRepeated(ConstMatrix in, ConstMatrix addend, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &addend, &out));
    return Compute([=](Backend* cpu) { return cpu->AddRepeated(in, addend, out); });
  }
  absl::Status DoSumRepeated(ConstMatrix in, bool accumulate, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute([=](Backend* cpu) { return cpu->SumRepeated(in, accumulate, out); });
  }
  absl::Status DoLookup(ConstMatrix tokens, ConstMatrix table, Matrix out) override {
    RETURN_IF_ERROR(Bring(&tokens, &table, &out));
    return Compute([=](Backend* cpu) { return cpu->Lookup(tokens, table, out); });
  }
  absl::Status DoLookupBackward(ConstMatrix tokens, ConstMatrix output_gradient,
                                Matrix table_gradient) override {
    RETURN_IF_ERROR(Bring(&tokens, &output_gradient, &table_gradient));
    return Compute(
        [=](Backend* cpu) { return cpu->LookupBackward(tokens, output_gradient, table_gradient); });
  }
  absl::Status DoRmsNorm(ConstMatrix in, ConstMatrix gain, float epsilon, Matrix out,
                         Matrix inverse_rms) override {
    RETURN_IF_ERROR(Bring(&in, &gain, &out, &inverse_rms));
    return Compute([=](Backend* cpu) { return cpu->RmsNorm(in, gain, epsilon, out, inverse_rms); });
  }
  absl::Status DoRmsNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix inverse_rms,
                                 ConstMatrix output_gradient, Matrix input_gradient) override {
    RETURN_IF_ERROR(Bring(&in, &gain, &inverse_rms, &output_gradient, &input_gradient));
    return Compute([=](Backend* cpu) {
      return cpu->RmsNormBackward(in, gain, inverse_rms, output_gradient, input_gradient);
    });
  }
  absl::Status DoRmsNormGainGradient(ConstMatrix in, ConstMatrix inverse_rms,
                                     ConstMatrix output_gradient, bool accumulate,
                                     Matrix gain_gradient) override {
    RETURN_IF_ERROR(Bring(&in, &inverse_rms, &output_gradient, &gain_gradient));
    return Compute([=](Backend* cpu) {
      return cpu->RmsNormGainGradient(in, inverse_rms, output_gradient, accumulate, gain_gradient);
    });
  }
  absl::Status DoRotate(const Rotation& rotation, ConstMatrix in, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute(
        [=, rotation = rotation](Backend* cpu) { return cpu->Rotate(rotation, in, out); });
  }
  absl::Status DoCausalAttention(const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                                 Matrix log_sum) override {
    RETURN_IF_ERROR(Bring(&qkv, &out, &log_sum));
    return Compute([=, shape = shape](Backend* cpu) {
      return cpu->CausalAttention(shape, qkv, out, log_sum);
    });
  }
  absl::Status DoCausalAttentionBackward(const AttentionShape& shape, ConstMatrix qkv,
                                         ConstMatrix out, ConstMatrix log_sum,
                                         ConstMatrix output_gradient,
                                         Matrix qkv_gradient) override {
    RETURN_IF_ERROR(Bring(&qkv, &out, &log_sum, &output_gradient, &qkv_gradient));
    return Compute([=, shape = shape](Backend* cpu) {
      return cpu->CausalAttentionBackward(shape, qkv, out, log_sum, output_gradient, qkv_gradient);
    });
  }
  absl::Status DoAddScaled(float scale, ConstMatrix in, bool accumulate, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute([=](Backend* cpu) { return cpu->AddScaled(scale, in, accumulate, out); });
  }
  absl::Status DoCopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                             int64_t out_column) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute(
        [=](Backend* cpu) { return cpu->CopyColumns(in, in_column, columns, out, out_column); });
  }
  absl::Status DoConv2d(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                        Epilogue epilogue, ConstMatrix bias, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &weight, &out));
    if (epilogue != Epilogue::kNone) RETURN_IF_ERROR(Bring(&bias));
    return Compute([=, shape = shape](Backend* cpu) {
      return cpu->Conv2d(shape, in, weight, epilogue, bias, out);
    });
  }
  absl::Status DoConv2dBackwardInput(const WindowShape& shape, ConstMatrix weight,
                                     ConstMatrix output_gradient, Matrix input_gradient) override {
    RETURN_IF_ERROR(Bring(&weight, &output_gradient, &input_gradient));
    return Compute([=, shape = shape](Backend* cpu) {
      return cpu->Conv2dBackwardInput(shape, weight, output_gradient, input_gradient);
    });
  }
  absl::Status DoConv2dBackwardWeight(const WindowShape& shape, ConstMatrix in,
                                      ConstMatrix output_gradient, bool accumulate,
                                      Matrix weight_gradient) override {
    RETURN_IF_ERROR(Bring(&in, &output_gradient, &weight_gradient));
    return Compute([=, shape = shape](Backend* cpu) {
      return cpu->Conv2dBackwardWeight(shape, in, output_gradient, accumulate, weight_gradient);
    });
  }
  absl::Status DoMaxPool2d(const WindowShape& shape, ConstMatrix in, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute([=, shape = shape](Backend* cpu) { return cpu->MaxPool2d(shape, in, out); });
  }
  absl::Status DoMaxPool2dBackward(const WindowShape& shape, ConstMatrix in, ConstMatrix out,
                                   ConstMatrix output_gradient, Matrix input_gradient) override {
    RETURN_IF_ERROR(Bring(&in, &out, &output_gradient, &input_gradient));
    return Compute([=, shape = shape](Backend* cpu) {
      return cpu->MaxPool2dBackward(shape, in, out, output_gradient, input_gradient);
    });
  }
  absl::Status DoAveragePool2d(const WindowShape& shape, ConstMatrix in, Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &out));
    return Compute([=, shape = shape](Backend* cpu) { return cpu->AveragePool2d(shape, in, out); });
  }
  absl::Status DoAveragePool2dBackward(const WindowShape& shape, ConstMatrix output_gradient,
                                       Matrix input_gradient) override {
    RETURN_IF_ERROR(Bring(&output_gradient, &input_gradient));
    return Compute([=, shape = shape](Backend* cpu) {
      return cpu->AveragePool2dBackward(shape, output_gradient, input_gradient);
    });
  }
  absl::Status DoColumnMoments(ConstMatrix in, Matrix mean, Matrix variance) override {
    RETURN_IF_ERROR(Bring(&in, &mean, &variance));
    return Compute([=](Backend* cpu) { return cpu->ColumnMoments(in, mean, variance); });
  }
  absl::Status DoNormalizeColumns(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                  float epsilon, ConstMatrix gain, ConstMatrix bias,
                                  Matrix out) override {
    RETURN_IF_ERROR(Bring(&in, &mean, &variance, &gain, &bias, &out));
    return Compute([=](Backend* cpu) {
      return cpu->NormalizeColumns(in, mean, variance, epsilon, gain, bias, out);
    });
  }
  absl::Status DoBatchNormSums(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                               float epsilon, ConstMatrix output_gradient, Matrix sums) override {
    RETURN_IF_ERROR(Bring(&in, &mean, &variance, &output_gradient, &sums));
    return Compute([=](Backend* cpu) {
      return cpu->BatchNormSums(in, mean, variance, epsilon, output_gradient, sums);
    });
  }
  absl::Status DoBatchNormBackward(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                   float epsilon, ConstMatrix gain, ConstMatrix sums,
                                   ConstMatrix output_gradient, Matrix input_gradient) override {
    RETURN_IF_ERROR(Bring(&in, &mean, &variance, &gain, &sums, &output_gradient, &input_gradient));
    return Compute([=](Backend* cpu) {
      return cpu->BatchNormBackward(in, mean, variance, epsilon, gain, sums, output_gradient,
                                    input_gradient);
    });
  }
  absl::Status DoLayerNorm(ConstMatrix in, ConstMatrix gain, ConstMatrix bias, float epsilon,
                           Matrix out, Matrix mean, Matrix inverse_deviation) override {
    RETURN_IF_ERROR(Bring(&in, &gain, &bias, &out, &mean, &inverse_deviation));
    return Compute([=](Backend* cpu) {
      return cpu->LayerNorm(in, gain, bias, epsilon, out, mean, inverse_deviation);
    });
  }
  absl::Status DoLayerNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix mean,
                                   ConstMatrix inverse_deviation, ConstMatrix output_gradient,
                                   Matrix input_gradient) override {
    RETURN_IF_ERROR(
        Bring(&in, &gain, &mean, &inverse_deviation, &output_gradient, &input_gradient));
    return Compute([=](Backend* cpu) {
      return cpu->LayerNormBackward(in, gain, mean, inverse_deviation, output_gradient,
                                    input_gradient);
    });
  }
  absl::Status DoLayerNormParameterGradients(ConstMatrix in, ConstMatrix mean,
                                             ConstMatrix inverse_deviation,
                                             ConstMatrix output_gradient, bool accumulate,
                                             Matrix gain_gradient, Matrix bias_gradient) override {
    RETURN_IF_ERROR(
        Bring(&in, &mean, &inverse_deviation, &output_gradient, &gain_gradient, &bias_gradient));
    return Compute([=](Backend* cpu) {
      return cpu->LayerNormParameterGradients(in, mean, inverse_deviation, output_gradient,
                                              accumulate, gain_gradient, bias_gradient);
    });
  }

  absl::StatusOr<std::unique_ptr<PendingSums>> DoSquaredError(ConstMatrix outputs,
                                                              const float* targets,
                                                              Matrix* gradient) override {
    return Loss(&Backend::SquaredError, outputs, targets, outputs.size(), gradient);
  }
  absl::StatusOr<std::unique_ptr<PendingSums>> DoBinaryCrossEntropy(ConstMatrix outputs,
                                                                    const float* targets,
                                                                    Matrix* gradient) override {
    return Loss(&Backend::BinaryCrossEntropy, outputs, targets, outputs.size(), gradient);
  }
  absl::StatusOr<std::unique_ptr<PendingSums>> DoSoftmaxCrossEntropy(ConstMatrix logits,
                                                                     const uint32_t* labels,
                                                                     Matrix* gradient) override {
    return Loss(&Backend::SoftmaxCrossEntropy, logits, labels, logits.rows, gradient);
  }

 private:
  static absl::Status CopyFloats(const float* from, int64_t count, float* to) {
    std::copy_n(from, count, to);
    return absl::OkStatus();
  }

  // Adds what `event` stands for; what is no work of the device is waited for.
  static absl::Status LetWait(const BackendEvent& event, std::vector<LazyDevice::Point>* points) {
    const auto* const of_device = dynamic_cast<const LazyEvent*>(&event);
    if (of_device == nullptr) return event.Wait();
    points->insert(points->end(), of_device->points().begin(), of_device->points().end());
    return absl::OkStatus();
  }

  absl::Status Use(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(device_->mutex_) {
    const uint64_t left = device_->capacity_ - std::min(device_->capacity_, device_->used_);
    if (bytes > left) {
      return absl::ResourceExhaustedError(absl::StrCat("lazy device: found ", bytes,
                                                       " bytes asked for, ", left,
                                                       " bytes free of ", device_->capacity_));
    }
    device_->used_ += bytes;
    return absl::OkStatus();
  }

  // Puts the real address into the view, and keeps the memory until the next operation is done.
  template <typename View>
  absl::Status BringOne(View* view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(device_->mutex_) {
    if (view->size() == 0) return absl::OkStatus();
    auto found = device_->allocations_.upper_bound(view->data);
    if (found != device_->allocations_.begin()) {
      const std::shared_ptr<LazyDevice::Allocation>& allocation = (--found)->second;
      const ptrdiff_t offset = view->data - allocation->address;
      if (offset + view->size() <= static_cast<ptrdiff_t>(allocation->real.size())) {
        view->data = allocation->real.data() + offset;
        memory_.push_back(allocation);
        return absl::OkStatus();
      }
    }
    return absl::InvalidArgumentError("lazy device: the matrix is not in its memory");
  }
  template <typename... Views>
  absl::Status Bring(Views*... views) {
    MutexLock lock(&device_->mutex_);
    memory_.clear();
    absl::Status status;
    (status.Update(BringOne(views)), ...);
    return status;
  }

  // Whether something that nobody waits for is done at once.
  bool Hastes(bool at_once) ABSL_EXCLUSIVE_LOCKS_REQUIRED(device_->mutex_) {
    const uint64_t number = device_->asked_++;
    if (device_->haste_ != LazyDevice::Haste::kSome) return at_once;
    return (number * 0x9E3779B97F4A7C15u >> 61) == 0;
  }

  void Ask(const std::shared_ptr<LazyDevice::Stream>& stream, LazyDevice::Operation operation,
           bool at_once) ABSL_EXCLUSIVE_LOCKS_REQUIRED(device_->mutex_) {
    operation.memory = std::move(memory_);
    stream->waiting.push_back(std::move(operation));
    ++stream->asked;
    if (Hastes(at_once)) (void)device_->Advance({stream, stream->asked});
  }

  absl::Status Compute(const std::function<absl::Status(Backend*)>& kernel) {
    LazyDevice::Operation operation;
    operation.run = [kernel, cpu = cpu_.get()] { return kernel(cpu); };
    operation.after = std::move(waits_);
    waits_.clear();
    MutexLock lock(&device_->mutex_);
    Ask(compute_, std::move(operation), false);
    return absl::OkStatus();
  }

  template <typename Label>
  absl::StatusOr<std::unique_ptr<PendingSums>> Loss(
      absl::StatusOr<std::unique_ptr<PendingSums>> (Backend::*kernel)(ConstMatrix, const Label*,
                                                                      Matrix*),
      ConstMatrix outputs, const Label* labels, int64_t num_labels, Matrix* gradient) {
    Matrix to;
    if (gradient != nullptr) to = *gradient;
    RETURN_IF_ERROR(Bring(&outputs, &to));
    const auto sums = std::make_shared<ClassificationSums>();
    RETURN_IF_ERROR(Compute([=, wanted = gradient != nullptr,
                             kept = std::vector<Label>(labels, labels + num_labels)](Backend* cpu) {
      Matrix out = to;
      const auto pending = (cpu->*kernel)(outputs, kept.data(), wanted ? &out : nullptr);
      RETURN_IF_ERROR(pending.status());
      *sums = (*pending)->Get().value();
      return absl::OkStatus();
    }));
    MutexLock lock(&device_->mutex_);
    return std::make_unique<LazySums>(device_, LazyDevice::Point{compute_, compute_->asked}, sums);
  }

  std::unique_ptr<BackendEvent> EventOf(const std::shared_ptr<LazyDevice::Stream>& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(device_->mutex_) {
    std::vector<LazyDevice::Point> points = {{stream, stream->asked}};
    // What later operations wait for, the point waits for.
    if (stream == compute_) points.insert(points.end(), waits_.begin(), waits_.end());
    return std::make_unique<LazyEvent>(device_, std::move(points));
  }

  LazyDevice* const device_;
  const std::unique_ptr<Backend> cpu_;
  std::shared_ptr<LazyDevice::Stream> compute_;
  std::shared_ptr<LazyDevice::Stream> uploads_;
  std::shared_ptr<LazyDevice::Stream> downloads_;
  std::vector<LazyDevice::Point> waits_;  // of the next operation
  std::vector<std::shared_ptr<LazyDevice::Allocation>> memory_;
  // Guarded by the device's mutex.
  absl::Status fault_;
  uint64_t reserved_ = 0;
  uint64_t free_ = 0;
};

std::unique_ptr<Backend> CreateLazyBackend(LazyDevice* device, Precision precision) {
  return std::make_unique<LazyBackend>(device, precision);
}

LazyDevice& TheLazyDevice() {
  static auto* const device = new LazyDevice;
  return *device;
}

namespace {

BackendKind Lazy() {
  BackendKind lazy;
  lazy.name = "lazy";
  lazy.create = [](int device, Precision precision) -> absl::StatusOr<std::unique_ptr<Backend>> {
    if (device != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("lazy device: found number ", device, ", expected 0"));
    }
    return CreateLazyBackend(&TheLazyDevice(), precision);
  };
  lazy.is_native = [](int, Precision) { return true; };
  lazy.describe = [](int) {
    BackendDevice device;
    device.name = "lazy";
    device.memory_bytes = uint64_t{1} << 32;
    return device;
  };
  return lazy;
}

const bool kRegistered = RegisterBackend(Lazy());

}  // namespace
}  // namespace sangam::testing
