#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/buffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"

// Copies beside the computation, points in it, and sums that come later.
namespace sangam::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

using Event = std::unique_ptr<BackendEvent>;

// The event, or a failed test.
Event Good(absl::StatusOr<Event> event) {
  EXPECT_TRUE(event.ok()) << event.status();
  return event.ok() ? *std::move(event) : nullptr;
}

// Another lane on the same device.
std::unique_ptr<Backend> Another(Backend* backend) {
  auto other = CreateBackend(backend->name());
  EXPECT_TRUE(other.ok()) << other.status();
  return other.ok() ? *std::move(other) : nullptr;
}

// So that work takes a while: out = in * 2^-steps.
void Halve(Backend* backend, Matrix inout, int steps) {
  for (int i = 0; i < steps; ++i) {
    ASSERT_TRUE(backend->AddScaled(0.5f, inout, false, inout).ok());
  }
}

void AnEventIsAfterTheWorkBeforeIt(Backend* backend) {
  const DeviceMatrix x(backend, 50, 40, std::vector<float>(2000, 1024.0f));
  std::vector<float> host(2000, kUntouched);
  Halve(backend, x.view(), 10);
  ASSERT_TRUE(backend->Download(x.view(), host.data()).ok());
  const Event done = Good(backend->Record());
  ASSERT_NE(done, nullptr);
  // On any thread, and as often as one likes.
  std::thread([&done] { EXPECT_TRUE(done->Wait().ok()); }).join();
  EXPECT_TRUE(done->Wait().ok());
  EXPECT_THAT(host, Each(1.0f));
}

void ADownloadBesideSeesWhatWasAskedForBefore(Backend* backend) {
  const DeviceMatrix x(backend, 50, 40, std::vector<float>(2000, 1024.0f));
  const DeviceMatrix y(backend, 50, 40);
  std::vector<float> host(2000, kUntouched);
  Halve(backend, x.view(), 10);
  const Event arrived = Good(backend->DownloadBeside(x.view(), host.data()));
  ASSERT_NE(arrived, nullptr);
  // Later work goes on, and may write to `x` once it is read.
  ASSERT_TRUE(backend->Add(x.view(), x.view(), y.view()).ok());
  ASSERT_TRUE(backend->WaitFor(*arrived).ok());
  ASSERT_TRUE(backend->Fill(7.0f, x.view()).ok());
  ASSERT_TRUE(arrived->Wait().ok());
  EXPECT_THAT(host, Each(1.0f));
  EXPECT_THAT(x.Read(), Each(7.0f));
  EXPECT_THAT(y.Read(), Each(2.0f));
}

void AnUploadBesideIsSeenByWhoWaitsForIt(Backend* backend) {
  const std::vector<float> values = RandomFloats(2000, 1);
  const DeviceMatrix x(backend, 50, 40);
  const DeviceMatrix y(backend, 50, 40);
  std::vector<float> host = values;
  const Event arrived = Good(backend->UploadBeside(host.data(), x.view(), nullptr));
  ASSERT_NE(arrived, nullptr);
  ASSERT_TRUE(backend->WaitFor(*arrived).ok());
  ASSERT_TRUE(backend->Copy(x.view(), y.view()).ok());
  ASSERT_TRUE(arrived->Wait().ok());
  host.assign(2000, kUntouched);  // may change now
  EXPECT_EQ(y.Read(), values);
}

void AnUploadBesideWaitsForWhatItIsToldTo(Backend* backend) {
  const std::vector<float> values = RandomFloats(2000, 1);
  const DeviceMatrix x(backend, 50, 40, std::vector<float>(2000, 1024.0f));
  const DeviceMatrix y(backend, 50, 40);
  Halve(backend, x.view(), 10);
  ASSERT_TRUE(backend->Copy(x.view(), y.view()).ok());
  const Event read = Good(backend->Record());
  ASSERT_NE(read, nullptr);
  const Event arrived = Good(backend->UploadBeside(values.data(), x.view(), read.get()));
  ASSERT_NE(arrived, nullptr);
  ASSERT_TRUE(arrived->Wait().ok());
  EXPECT_THAT(y.Read(), Each(1.0f));
  EXPECT_EQ(x.Read(), values);
}

// As a lane's weights change: the next upload waits until all lanes have read the last one.
void LanesWaitForOneAnother(Backend* backend) {
  const std::unique_ptr<Backend> other = Another(backend);
  ASSERT_NE(other, nullptr);
  const DeviceMatrix shared(backend, 20, 30);
  const DeviceMatrix sum(backend, 20, 30, std::vector<float>(600, 0.0f));
  const DeviceMatrix sum_of_other(other.get(), 20, 30, std::vector<float>(600, 0.0f));
  std::vector<std::vector<float>> uploads;
  for (int i = 0; i < 5; ++i) uploads.emplace_back(600, static_cast<float>(1 << i));
  Event read_by_other;
  for (const std::vector<float>& values : uploads) {
    if (read_by_other != nullptr) {
      ASSERT_TRUE(backend->WaitFor(*read_by_other).ok());
    }
    const Event may_change = Good(backend->Record());
    ASSERT_NE(may_change, nullptr);
    const Event arrived =
        Good(backend->UploadBeside(values.data(), shared.view(), may_change.get()));
    ASSERT_NE(arrived, nullptr);
    ASSERT_TRUE(backend->WaitFor(*arrived).ok());
    ASSERT_TRUE(other->WaitFor(*arrived).ok());
    ASSERT_TRUE(backend->AddScaled(1.0f, shared.view(), true, sum.view()).ok());
    ASSERT_TRUE(other->AddScaled(1.0f, shared.view(), true, sum_of_other.view()).ok());
    read_by_other = Good(other->Record());
    ASSERT_NE(read_by_other, nullptr);
  }
  EXPECT_THAT(sum.Read(), Each(31.0f));
  EXPECT_THAT(sum_of_other.Read(), Each(31.0f));
}

void CopiesOfNothing(Backend* backend) {
  const DeviceMatrix nothing(backend, 0, 4);
  const Event up = Good(backend->UploadBeside(nullptr, nothing.view(), nullptr));
  const Event down = Good(backend->DownloadBeside(nothing.view(), nullptr));
  ASSERT_TRUE(up != nullptr && down != nullptr);
  EXPECT_TRUE(up->Wait().ok());
  EXPECT_TRUE(backend->WaitFor(*up).ok());
  EXPECT_TRUE(backend->WaitFor(*down).ok());
  const DeviceMatrix x(backend, 1, 1, std::vector<float>{3.0f});
  const float host = 4.0f;
  const Event after = Good(backend->UploadBeside(&host, x.view(), up.get()));
  ASSERT_NE(after, nullptr);
  EXPECT_TRUE(after->Wait().ok());
  EXPECT_EQ(x.Read()[0], 4.0f);
}

void CopiesWithoutHostMemoryAreErrors(Backend* backend) {
  const DeviceMatrix x(backend, 2, 3, RandomFloats(6, 1));
  const auto is_invalid = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  };
  is_invalid(backend->Upload(nullptr, x.view()));
  is_invalid(backend->Download(x.view(), nullptr));
  is_invalid(backend->UploadBeside(nullptr, x.view(), nullptr).status());
  is_invalid(backend->DownloadBeside(x.view(), nullptr).status());
  is_invalid(backend->Pin(nullptr, 6).status());
  EXPECT_EQ(x.Read(), RandomFloats(6, 1));
}

void PinnedMemoryIsMemory(Backend* backend) {
  const std::unique_ptr<Backend> other = Another(backend);
  ASSERT_NE(other, nullptr);
  constexpr int64_t kSize = 20000;
  const std::vector<float> values = RandomFloats(kSize, 1);
  const FloatBuffer host = *FloatBuffer::Allocate(kSize);
  std::copy(values.begin(), values.end(), host.data());
  {
    auto pin = backend->Pin(host.data(), kSize);
    ASSERT_TRUE(pin.ok()) << pin.status();
    // Lanes share such buffers.
    auto again = other->Pin(host.data(), kSize);
    ASSERT_TRUE(again.ok()) << again.status();
    const DeviceMatrix x(backend, 200, 100);
    const Event arrived = Good(backend->UploadBeside(host.data(), x.view(), nullptr));
    ASSERT_NE(arrived, nullptr);
    ASSERT_TRUE(arrived->Wait().ok());
    std::fill_n(host.data(), kSize, kUntouched);
    const Event back = Good(backend->DownloadBeside(x.view(), host.data()));
    ASSERT_NE(back, nullptr);
    ASSERT_TRUE(back->Wait().ok());
  }
  EXPECT_TRUE(std::equal(values.begin(), values.end(), host.data()));
  EXPECT_TRUE(backend->Pin(host.data(), 0).ok());
  EXPECT_TRUE(backend->Pin(host.data(), kSize).ok());
}

void ReservedMemoryIsZeroAndApart(Backend* backend) {
  constexpr int64_t kSize = 100;  // two units of an allocation
  ASSERT_TRUE(backend->Reserve(4 * 2 * Backend::kAllocationElements).ok());
  for (int round = 0; round < 2; ++round) {
    // More than there is room for.
    std::vector<std::unique_ptr<BackendMemory>> pieces;
    for (int i = 0; i < 6; ++i) {
      auto memory = backend->Allocate(kSize);
      ASSERT_TRUE(memory.ok()) << memory.status();
      EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->data()) % 64, 0u);
      pieces.push_back(*std::move(memory));
    }
    std::vector<float> host(kSize, kUntouched);
    for (int i = 0; i < 6; ++i) {
      const Matrix piece = {pieces[static_cast<size_t>(i)]->data(), 1, kSize};
      ASSERT_TRUE(backend->Download(piece, host.data()).ok());
      ASSERT_TRUE(backend->Synchronize().ok());
      EXPECT_THAT(host, Each(0.0f)) << "round " << round << ", piece " << i;
      ASSERT_TRUE(backend->Fill(static_cast<float>(i + 1), piece).ok());
    }
    for (int i = 0; i < 6; ++i) {
      const Matrix piece = {pieces[static_cast<size_t>(i)]->data(), 1, kSize};
      ASSERT_TRUE(backend->Download(piece, host.data()).ok());
      ASSERT_TRUE(backend->Synchronize().ok());
      EXPECT_THAT(host, Each(static_cast<float>(i + 1)));
    }
  }
}

// Of what has memory of its own.
void MoreMemoryThanThereIs(Backend* backend) {
  if (backend->uses_host_memory()) return;
  constexpr int64_t kTooMuch = int64_t{1} << 45;
  const std::string asked = std::to_string(kTooMuch * 4);
  for (const absl::Status& status :
       {backend->Reserve(kTooMuch), backend->Allocate(kTooMuch).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(asked + " bytes"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("bytes free of "));
  }
  // And all goes on.
  const DeviceMatrix x(backend, 2, 3, RandomFloats(6, 1));
  EXPECT_EQ(x.Read(), RandomFloats(6, 1));
}

// Labels may change when the call has returned; sums are asked for in any order, on any thread, or
// never.
void SumsOfManyLosses(Backend* backend) {
  constexpr int kLosses = 12;
  const std::vector<float> logits = RandomFloats(7 * 5, 1);
  const DeviceMatrix device(backend, 7, 5, logits);
  std::vector<ClassificationSums> expected;
  for (int i = 0; i < kLosses; ++i) {
    const std::vector<uint32_t> labels(7, static_cast<uint32_t>(i % 5));
    const auto known = Sums(backend->SoftmaxCrossEntropy(device.view(), labels.data(), nullptr));
    ASSERT_TRUE(known.ok()) << known.status();
    expected.push_back(*known);
  }
  std::vector<std::unique_ptr<PendingSums>> all;
  for (int i = 0; i < kLosses; ++i) {
    std::vector<uint32_t> labels(7, static_cast<uint32_t>(i % 5));
    auto pending = backend->SoftmaxCrossEntropy(device.view(), labels.data(), nullptr);
    ASSERT_TRUE(pending.ok()) << pending.status();
    labels.assign(7, 4u);
    all.push_back(*std::move(pending));
    if (i % 3 == 0) all.back() = nullptr;
  }
  EXPECT_NE(expected[0].loss, expected[1].loss);
  std::thread([&] {
    for (size_t i = kLosses; i-- > 0;) {
      if (all[i] == nullptr) continue;
      for (int time = 0; time < 2; ++time) {
        const absl::StatusOr<ClassificationSums> sums = all[i]->Get();
        ASSERT_TRUE(sums.ok()) << sums.status();
        EXPECT_EQ(sums->loss, expected[i].loss) << i;
        EXPECT_EQ(sums->correct, expected[i].correct) << i;
      }
      all[i] = nullptr;
    }
  }).join();
}

}  // namespace

std::vector<OpCase> TransferCases() {
  return {
      {"AnEventIsAfterTheWorkBeforeIt", AnEventIsAfterTheWorkBeforeIt},
      {"ADownloadBesideSeesWhatWasAskedForBefore", ADownloadBesideSeesWhatWasAskedForBefore},
      {"AnUploadBesideIsSeenByWhoWaitsForIt", AnUploadBesideIsSeenByWhoWaitsForIt},
      {"AnUploadBesideWaitsForWhatItIsToldTo", AnUploadBesideWaitsForWhatItIsToldTo},
      {"LanesWaitForOneAnother", LanesWaitForOneAnother},
      {"CopiesOfNothing", CopiesOfNothing},
      {"CopiesWithoutHostMemoryAreErrors", CopiesWithoutHostMemoryAreErrors},
      {"PinnedMemoryIsMemory", PinnedMemoryIsMemory},
      {"ReservedMemoryIsZeroAndApart", ReservedMemoryIsZeroAndApart},
      {"MoreMemoryThanThereIs", MoreMemoryThanThereIs},
      {"SumsOfManyLosses", SumsOfManyLosses},
  };
}

}  // namespace sangam::testing
