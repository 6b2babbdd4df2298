#include "worker/backend/cuda/sequences.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cuda_on_cpu/control.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/cuda_backend.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/precision.h"

// Through the backend, on the stand-in for CUDA.
namespace sangam {
namespace {

using ::sangam::testing::DeviceMatrix;
using ::sangam::testing::RandomFloats;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CudaSequencesTest : public ::testing::Test {
 protected:
  // A device fails for the whole process: each test leaves it as new.
  ~CudaSequencesTest() override {
    backend_ = nullptr;
    cudaDeviceReset();
    cudaGetLastError();
  }

  Matrix New(int64_t rows, int64_t cols, const std::vector<float>& values) {
    matrices_.push_back(std::make_unique<DeviceMatrix>(backend_.get(), rows, cols, values));
    return matrices_.back()->view();
  }
  Matrix New(int64_t rows, int64_t cols, uint64_t seed = 1) {
    return New(rows, cols, RandomFloats(rows * cols, seed));
  }

  std::vector<float> Read(ConstMatrix matrix) {
    std::vector<float> host(static_cast<size_t>(matrix.size()));
    EXPECT_TRUE(backend_->Download(matrix, host.data()).ok());
    EXPECT_TRUE(backend_->Synchronize().ok());
    return host;
  }

  // Operations of all kinds: alone and with scratch, tables, numbers that change and factors that
  // are copied first.
  absl::Status AskFor(uint64_t step) {
    absl::Status status;
    GemmArguments product;
    product.a = a_;
    product.b = {b_.data + 1, 24, 8};  // not aligned
    product.c = c_;
    product.epilogue = Epilogue::kBiasRelu;
    product.bias = bias_;
    status.Update(backend_->Gemm(product));
    status.Update(backend_->Dropout({7, step, 2, 32 * step}, 0.5f, c_, c_));
    status.Update(backend_->Dropout({7, step, 3, 32 * step}, 0.25f, c_, c_));
    status.Update(backend_->Rotate({8, 2}, a_, rotated_));
    status.Update(backend_->SumRows(rotated_, /*accumulate=*/true, sums_));
    status.Update(backend_->Lookup(tokens_, table_, found_));
    status.Update(backend_->LookupBackward(tokens_, found_, table_gradient_));
    return status;
  }
  // What they give, all of it.
  std::vector<float> Results() {
    std::vector<float> all;
    for (const ConstMatrix matrix : {ConstMatrix(c_), ConstMatrix(rotated_), ConstMatrix(sums_),
                                     ConstMatrix(found_), ConstMatrix(table_gradient_)}) {
      const std::vector<float> values = Read(matrix);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  void MakeMatrices(Precision precision) {
    matrices_.clear();
    backend_ = *CreateCudaBackend(0, precision);
    a_ = New(16, 24);
    b_ = New(25, 8, 2);
    bias_ = New(1, 8, 3);
    c_ = New(16, 8, 4);
    rotated_ = New(16, 24);
    sums_ = New(1, 24, 5);
    tokens_ = New(4, 1, {3, 0, 3, 1});
    table_ = New(5, 6, 6);
    found_ = New(4, 6);
    table_gradient_ = New(5, 6, 7);
  }

  absl::Status InSequence(const std::function<absl::Status()>& ask) {
    backend_->BeginSequence();
    absl::Status status = ask();
    status.Update(backend_->EndSequence());
    return status;
  }

  std::unique_ptr<Backend> backend_ = *CreateCudaBackend(0);
  std::vector<std::unique_ptr<DeviceMatrix>> matrices_;
  Matrix a_, b_, bias_, c_, rotated_, sums_, tokens_, table_, found_, table_gradient_;
};

TEST_F(CudaSequencesTest, GiveTheBitsOfTheirOperations) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kTf32}) {
    MakeMatrices(precision);
    std::vector<std::vector<float>> expected;
    for (uint64_t step = 0; step < 6; ++step) {
      ASSERT_TRUE(AskFor(step).ok());
      expected.push_back(Results());
    }
    EXPECT_NE(expected[4], expected[5]);
    MakeMatrices(precision);
    const int64_t before = NumCudaGraphLaunches();
    for (uint64_t step = 0; step < 6; ++step) {
      const absl::Status status = InSequence([&] { return AskFor(step); });
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(Results(), expected[step]) << step;
    }
    // The first run makes scratch, which moves in the second one; a graph it is from then on.
    EXPECT_GE(NumCudaGraphLaunches() - before, 4);
  }
}

TEST_F(CudaSequencesTest, NothingHappensBeforeTheEnd) {
  const Matrix x = New(2, 3, {1, 2, 3, 4, 5, 6});
  const auto twice = [&]() -> absl::Status {
    absl::Status status = backend_->Add(x, x, x);
    status.Update(backend_->Add(x, x, x));
    return status;
  };
  ASSERT_TRUE(InSequence(twice).ok());
  ASSERT_TRUE(backend_->Synchronize().ok());
  backend_->BeginSequence();
  ASSERT_TRUE(twice().ok());
  EXPECT_EQ(cuda_on_cpu::PendingOperations(), 0u);
  ASSERT_TRUE(backend_->EndSequence().ok());
  EXPECT_EQ(Read(x), (std::vector<float>{16, 32, 48, 64, 80, 96}));
}

// Whatever looks at results or waits for them comes after what is kept.
TEST_F(CudaSequencesTest, OtherCallsComeAfterwards) {
  const Matrix x = New(2, 3, {1, 2, 3, 4, 5, 6});
  std::vector<float> host(6);
  backend_->BeginSequence();
  ASSERT_TRUE(backend_->Add(x, x, x).ok());
  auto down = backend_->DownloadBeside(x, host.data());
  ASSERT_TRUE(down.ok());
  ASSERT_TRUE((*down)->Wait().ok());
  EXPECT_EQ(host, (std::vector<float>{2, 4, 6, 8, 10, 12}));
  ASSERT_TRUE(backend_->Add(x, x, x).ok());
  auto point = backend_->Record();
  ASSERT_TRUE(point.ok());
  ASSERT_TRUE((*point)->Wait().ok());
  EXPECT_EQ(Read(x), (std::vector<float>{4, 8, 12, 16, 20, 24}));
  ASSERT_TRUE(backend_->Fill(1.0f, x).ok());
  EXPECT_EQ(Read(x), std::vector<float>(6, 1.0f));
  ASSERT_TRUE(backend_->Fill(2.0f, x).ok());
  const auto sums = testing::Sums(
      backend_->SquaredError(x, std::vector<float>(6, 0.0f).data(), /*gradient=*/nullptr));
  ASSERT_TRUE(sums.ok());
  EXPECT_EQ(sums->loss, 24);
}

TEST_F(CudaSequencesTest, OtherArgumentsAreAnotherSequence) {
  const Matrix x = New(2, 3, {1, 2, 3, 4, 5, 6});
  const Matrix y = New(2, 3);
  for (const float scale : {2.0f, 3.0f, 2.0f, 3.0f, 2.0f, 3.0f}) {
    for (const bool accumulate : {false, true}) {
      ASSERT_TRUE(InSequence([&]() -> absl::Status {
                    absl::Status status = backend_->Fill(1.0f, y);
                    status.Update(backend_->AddScaled(scale, x, accumulate, y));
                    return status;
                  }).ok());
      const float base = accumulate ? 1 : 0;
      EXPECT_EQ(Read(y)[5], base + 6 * scale);
    }
  }
}

TEST_F(CudaSequencesTest, MovedScratchMakesGraphsAnew) {
  MakeMatrices(Precision::kFp32);
  const Matrix long_one = New(20000, 24, 8);
  const Matrix its_sums = New(1, 24);
  for (uint64_t step = 0; step < 4; ++step)
    ASSERT_TRUE(InSequence([&] { return AskFor(step); }).ok());
  ASSERT_TRUE(
      backend_->SumRows(long_one, /*accumulate=*/false, its_sums).ok());  // a larger scratch
  const int64_t before = NumCudaGraphLaunches();
  ASSERT_TRUE(InSequence([&] { return AskFor(4); }).ok());
  EXPECT_EQ(NumCudaGraphLaunches(), before);
  const std::vector<float> moved = Results();
  MakeMatrices(Precision::kFp32);
  for (uint64_t step = 0; step < 5; ++step) ASSERT_TRUE(AskFor(step).ok());
  EXPECT_EQ(Results(), moved);
}

TEST_F(CudaSequencesTest, WhatCannotBeRecordedGoesOneByOne) {
  const Matrix x = New(2, 3, {1, 2, 3, 4, 5, 6});
  const auto twice = [&]() -> absl::Status {
    absl::Status status = backend_->Add(x, x, x);
    status.Update(backend_->Add(x, x, x));
    return status;
  };
  ASSERT_TRUE(InSequence(twice).ok());
  const int64_t before = NumCudaGraphLaunches();
  cuda_on_cpu::FailNextLaunch("", cudaErrorInvalidConfiguration);
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = InSequence(twice);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(Read(x)[0], 256);
  EXPECT_EQ(NumCudaGraphLaunches(), before);
}

TEST_F(CudaSequencesTest, AGraphThatThereIsNoMemoryForIsNotNeeded) {
  const Matrix x = New(2, 3, {1, 2, 3, 4, 5, 6});
  const auto twice = [&]() -> absl::Status {
    absl::Status status = backend_->Add(x, x, x);
    status.Update(backend_->Add(x, x, x));
    return status;
  };
  ASSERT_TRUE(InSequence(twice).ok());
  const int64_t before = NumCudaGraphLaunches();
  cuda_on_cpu::FailNextGraphLaunch(cudaErrorMemoryAllocation);
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = InSequence(twice);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(Read(x)[0], 256);
  EXPECT_EQ(NumCudaGraphLaunches(), before);
}

// What is done the first time only, such as a choice or a table, must not come into a graph.
TEST_F(CudaSequencesTest, WhatWasNotDoneAsAWholeIsNotKnown) {
  MakeMatrices(Precision::kFp32);
  const auto both = [&]() -> absl::Status {
    absl::Status status = backend_->Add(a_, a_, a_);
    status.Update(backend_->Rotate({8, 2}, a_, rotated_));
    return status;
  };
  cuda_on_cpu::FailNextLaunch("", cudaErrorInvalidConfiguration);
  EXPECT_FALSE(InSequence(both).ok());
  const int64_t before = NumCudaGraphLaunches();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(InSequence(both).ok());
  EXPECT_EQ(NumCudaGraphLaunches() - before, 2);
  const std::vector<float> in_sequences = Read(rotated_);
  MakeMatrices(Precision::kFp32);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(both().ok());
  EXPECT_EQ(Read(rotated_), in_sequences);
}

// Of several kernels, as most that have scratch are.
TEST_F(CudaSequencesTest, OneOperationIsASequenceToo) {
  const Matrix tokens = New(300, 1, std::vector<float>(300, 3.0f));
  const Matrix gradient = New(300, 4, 2);
  const Matrix table_gradient = New(5, 4, std::vector<float>(20, 0.0f));
  const int64_t before = NumCudaGraphLaunches();
  std::vector<std::vector<float>> sums;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(backend_->Fill(0.0f, table_gradient).ok());
    ASSERT_TRUE(InSequence([&] {
                  return backend_->LookupBackward(tokens, gradient, table_gradient);
                }).ok());
    sums.push_back(Read(table_gradient));
    EXPECT_EQ(sums.back(), sums.front());
  }
  EXPECT_EQ(NumCudaGraphLaunches() - before, 3);
}

// What is set aside is given away at the same addresses again, so a test that is run again is
// known.
TEST_F(CudaSequencesTest, MemoryOfAReserveComesAgain) {
  ASSERT_TRUE(backend_->Reserve(10 * Backend::kAllocationElements).ok());
  const int64_t before = NumCudaGraphLaunches();
  for (int i = 0; i < 3; ++i) {
    const DeviceMatrix x(backend_.get(), 2, 3, {1, 2, 3, 4, 5, 6});
    const DeviceMatrix y(backend_.get(), 2, 3);
    ASSERT_TRUE(InSequence([&] { return backend_->Add(x.view(), x.view(), y.view()); }).ok());
    EXPECT_EQ(y.Read()[5], 12);
  }
  EXPECT_EQ(NumCudaGraphLaunches() - before, 2);
}

TEST_F(CudaSequencesTest, AFailedDeviceNamesTheOperationsOfAGraph) {
  const Matrix x = New(2, 3, {1, 2, 3, 4, 5, 6});
  const auto both = [&]() -> absl::Status {
    absl::Status status = backend_->Activate(Activation::kTanh, x, x);
    status.Update(backend_->AddScaled(2.0f, x, false, x));
    return status;
  };
  ASSERT_TRUE(InSequence(both).ok());
  cuda_on_cpu::FailNextLaunch("", cudaErrorIllegalAddress);
  absl::Status status = InSequence(both);
  if (status.ok()) status = backend_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cudaErrorIllegalAddress"), HasSubstr("activate, add scaled"),
                    HasSubstr("start anew")));
  EXPECT_EQ(InSequence(both), status);
}

TEST_F(CudaSequencesTest, BadTokensOfGraphsAreFound) {
  const Matrix table = New(5, 6, 6);
  const Matrix found = New(4, 6);
  DeviceMatrix tokens(backend_.get(), 4, 1, {0, 1, 2, 3});
  const auto twice = [&]() -> absl::Status {
    absl::Status status = backend_->Lookup(tokens.view(), table, found);
    status.Update(backend_->Add(found, found, found));
    return status;
  };
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(InSequence(twice).ok());
    ASSERT_TRUE(backend_->Synchronize().ok());
  }
  tokens.Write({0, 1, 9, 3});
  ASSERT_TRUE(InSequence(twice).ok());
  EXPECT_EQ(backend_->Synchronize(),
            absl::InvalidArgumentError("lookup: token 2 is 9, expected a whole number below 5"));
  tokens.Write({0, 1, 2, 3});
  ASSERT_TRUE(InSequence(twice).ok());
  EXPECT_TRUE(backend_->Synchronize().ok());
}

// Longer than a graph may be, and more numbers than are brought at once.
TEST_F(CudaSequencesTest, LongOnesGoInParts) {
  const Matrix x = New(2, 3, {1, 2, 3, 4, 5, 6});
  const auto many = [&](bool drop) -> absl::Status {
    absl::Status status = backend_->Fill(1.0f, x);
    for (uint64_t i = 0; i < 1500; ++i) {
      if (drop) status.Update(backend_->Dropout({1, i, 2, 3}, 0.0f, x, x));
      status.Update(backend_->AddScaled(1.0f, x, i % 512 == 0, x));
    }
    return status;
  };
  for (int i = 0; i < 3; ++i) {
    for (const bool drop : {false, true}) {
      ASSERT_TRUE(InSequence([&] { return many(drop); }).ok());
      EXPECT_EQ(Read(x), std::vector<float>(6, 8.0f));
    }
  }
}

// Nothing is computed, and what is computed afterwards allocates nothing.
TEST_F(CudaSequencesTest, ARehearsalMakesRoom) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    MakeMatrices(precision);
    const WindowShape window = {{4, 3, 2}, {3, 3, 1, 1}, 5};
    const Matrix kernel = New(5, 18, 9);
    const Matrix filtered = New(16, 60);
    const std::vector<uint32_t> labels(16, 3);
    const auto all = [&]() -> absl::Status {
      absl::Status status = AskFor(1);
      status.Update(backend_->Conv2d(window, a_, kernel, Epilogue::kNone, {}, filtered));
      status.Update(backend_->Conv2dBackwardInput(window, kernel, filtered, rotated_));
      status.Update(backend_->Conv2dBackwardWeight(window, a_, filtered, true, kernel));
      status.Update(backend_->SoftmaxCrossEntropy(c_, labels.data(), nullptr).status());
      return status;
    };
    const std::vector<float> untouched = Results();
    ASSERT_TRUE(backend_->BeginRehearsal());
    ASSERT_TRUE(all().ok());
    ASSERT_TRUE(backend_->EndRehearsal().ok());
    EXPECT_EQ(Results(), untouched);
    const int64_t before = NumCudaAllocations();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(InSequence(all).ok());
    ASSERT_TRUE(backend_->Synchronize().ok());
    EXPECT_EQ(NumCudaAllocations(), before);
  }
}

// In a sequence too nothing is computed, nor known afterwards.
TEST_F(CudaSequencesTest, ARehearsalOfSequencesLeavesNoGraphs) {
  MakeMatrices(Precision::kFp32);
  for (uint64_t step = 0; step < 3; ++step) ASSERT_TRUE(AskFor(step).ok());
  const std::vector<float> expected = Results();
  MakeMatrices(Precision::kFp32);
  const std::vector<float> untouched = Results();
  const int64_t before = NumCudaGraphLaunches();
  ASSERT_TRUE(backend_->BeginRehearsal());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(InSequence([&] { return AskFor(0); }).ok());
  ASSERT_TRUE(backend_->EndRehearsal().ok());
  EXPECT_EQ(Results(), untouched);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(InSequence([&] { return AskFor(step); }).ok());
  }
  EXPECT_EQ(Results(), expected);
  EXPECT_EQ(NumCudaGraphLaunches() - before, 2);
}

TEST_F(CudaSequencesTest, ARehearsalSaysHowMuchIsMissing) {
  MakeMatrices(Precision::kFp32);
  const WindowShape window = {{200, 200, 2}, {3, 3, 1, 1}, 5};
  const Matrix images = New(1, 80000);
  const Matrix kernel = New(5, 18, 9);
  const Matrix filtered = New(1, 200000);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  ASSERT_TRUE(backend_->BeginRehearsal());
  ASSERT_TRUE(backend_->Conv2d(window, images, kernel, Epilogue::kNone, {}, filtered).ok());
  cuda_on_cpu::SetDeviceMemory(total - free + 1000);
  const absl::Status status = backend_->EndRehearsal();
  cuda_on_cpu::SetDeviceMemory(total);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("need 2.7 MiB of the device's memory besides their matrices"),
                    HasSubstr("1000 bytes free")));
}

}  // namespace
}  // namespace sangam
