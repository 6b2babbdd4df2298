#include "common/rpc/call_places.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace sangam {
namespace {

using Place = CallPlaces::Place;

TEST(CallPlacesTest, BoundsEachHolderAndAll) {
  CallPlaces places(3, 2);
  const Place a1(&places, "a");
  auto a2 = std::make_unique<Place>(&places, "a");
  EXPECT_TRUE(a1.taken() && a2->taken());
  EXPECT_FALSE(Place(&places, "a").taken()) << "a has two";
  const Place b1(&places, "b");
  EXPECT_TRUE(b1.taken());
  EXPECT_FALSE(Place(&places, "b").taken()) << "all have three";
  EXPECT_EQ(places.Of("a"), 2u);
  a2.reset();
  EXPECT_EQ(places.Of("a"), 1u);
  EXPECT_TRUE(Place(&places, "b").taken());
  EXPECT_TRUE(Place(&places, "a").taken());
}

TEST(CallPlacesTest, OneThatIsNotTakenGivesNothingBack) {
  CallPlaces places(1, 1);
  const Place a(&places, "a");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Place(&places, "a").taken());
  EXPECT_EQ(places.Of("a"), 1u);
  EXPECT_FALSE(Place(&places, "b").taken());
  EXPECT_EQ(places.Of("b"), 0u);
}

TEST(CallPlacesTest, MayHaveNoBoundsOrNoPlaces) {
  CallPlaces unbounded;
  std::vector<std::unique_ptr<Place>> many;
  for (int i = 0; i < 1000; ++i) many.push_back(std::make_unique<Place>(&unbounded, "a"));
  EXPECT_EQ(unbounded.Of("a"), 1000u);
  CallPlaces none(0, 0);
  EXPECT_FALSE(Place(&none, "a").taken());
}

}  // namespace
}  // namespace sangam
