#include "worker/backend/cuda/host_pins.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <thread>

#include "common/tensor/buffer.h"
#include "cuda_on_cpu/control.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

bool IsPinned(void* host) {
  cudaPointerAttributes attributes = {};
  return cudaPointerGetAttributes(&attributes, host) == cudaSuccess &&
         attributes.type == cudaMemoryTypeHost;
}

class HostPinsTest : public ::testing::Test {
 protected:
  FloatBuffer buffer_ = *FloatBuffer::Allocate(FloatBuffer::kOwnPagesElements);
  int64_t bytes_ = static_cast<int64_t>(buffer_.size() * sizeof(float));
};

TEST_F(HostPinsTest, MemoryIsPinnedAsLongAsThePinLives) {
  {
    const auto pin = PinHostMemory(buffer_.data(), bytes_);
    ASSERT_TRUE(pin.ok()) << pin.status();
    EXPECT_TRUE(IsPinned(buffer_.data()));
  }
  EXPECT_FALSE(IsPinned(buffer_.data()));
}

// Whoever lets go of it last may be a thread that has nothing to do with the device.
TEST_F(HostPinsTest, APinEndsOnAnyThread) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  auto pin = PinHostMemory(buffer_.data(), bytes_);
  ASSERT_TRUE(pin.ok()) << pin.status();
  cuda_on_cpu::SetDeviceIsGiven(false);
  std::thread([&pin] { pin->reset(); }).join();
  cuda_on_cpu::SetDeviceIsGiven(true);
  EXPECT_FALSE(IsPinned(buffer_.data()));
}

// They may share a page with what somebody else has pinned or will.
TEST_F(HostPinsTest, SmallBuffersStayAsTheyAre) {
  const auto pin = PinHostMemory(buffer_.data(), bytes_ - 4);
  ASSERT_TRUE(pin.ok()) << pin.status();
  EXPECT_FALSE(IsPinned(buffer_.data()));
}

TEST_F(HostPinsTest, TheLastPinOfABufferEndsIt) {
  auto first = PinHostMemory(buffer_.data(), bytes_);
  auto second = PinHostMemory(buffer_.data(), bytes_);
  ASSERT_TRUE(first.ok() && second.ok());
  first->reset();
  EXPECT_TRUE(IsPinned(buffer_.data()));
  second->reset();
  EXPECT_FALSE(IsPinned(buffer_.data()));
}

TEST_F(HostPinsTest, WhatSomebodyElsePinnedStays) {
  ASSERT_EQ(cudaHostRegister(buffer_.data(), static_cast<size_t>(bytes_), cudaHostRegisterDefault),
            cudaSuccess);
  {
    const auto pin = PinHostMemory(buffer_.data(), bytes_);
    ASSERT_TRUE(pin.ok()) << pin.status();
  }
  EXPECT_TRUE(IsPinned(buffer_.data()));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(buffer_.data()), cudaSuccess);
}

}  // namespace
}  // namespace sangam
