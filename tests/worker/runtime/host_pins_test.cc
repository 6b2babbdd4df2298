#include "worker/runtime/host_pins.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/lazy_backend.h"
#include "worker/backend/backend.h"

namespace sangam {
namespace {

TEST(HostPinsTest, PinsEachBufferOnceUntilTheEnd) {
  testing::LazyDevice device;
  const std::unique_ptr<Backend> one = testing::CreateLazyBackend(&device);
  const std::unique_ptr<Backend> other = testing::CreateLazyBackend(&device);
  const std::vector<float> a(10);
  const std::vector<float> b(20);
  {
    HostPins pins;
    pins.Meet(one.get(), a.data(), 10);
    pins.Meet(other.get(), a.data(), 10);
    pins.Meet(other.get(), b.data(), 20);
    EXPECT_EQ(device.times_pinned(), 2);
    EXPECT_EQ(device.pins(), 2);
  }
  EXPECT_EQ(device.pins(), 0);
}

TEST(HostPinsTest, WhatCannotBePinnedIsLeft) {
  testing::LazyDevice device;
  const std::unique_ptr<Backend> backend = testing::CreateLazyBackend(&device);
  const std::vector<float> a(10);
  HostPins pins;
  pins.Meet(backend.get(), a.data(), 10);
  pins.Meet(backend.get(), a.data() + 5, 5);  // a part of it
  pins.Meet(backend.get(), a.data() + 5, 5);
  EXPECT_EQ(device.pins(), 1);
}

}  // namespace
}  // namespace sangam
