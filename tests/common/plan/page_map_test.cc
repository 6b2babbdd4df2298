#include "common/plan/page_map.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

v1::Plan TwoSegments() {
  v1::Plan plan;
  plan.set_page_elements(10);
  plan.add_server()->set_name("a");
  plan.add_server()->set_name("b");
  plan.mutable_layout()->add_segment()->set_element_count(25);
  plan.mutable_layout()->add_segment()->set_element_count(10);
  v1::SegmentPages* first = plan.add_segment_pages();
  for (const uint32_t server : {0, 1, 1}) first->add_server(server);
  plan.add_segment_pages()->add_server(0);
  return plan;
}

TEST(PageMapTest, SmallModelsHaveSmallerPages) {
  v1::ModelLayout layout;
  EXPECT_EQ(PageElementsOf(layout), kPageElements / 2);
  layout.add_segment()->set_element_count(40 * kPageElements);
  layout.add_segment()->set_element_count(24 * kPageElements);
  EXPECT_EQ(PageElementsOf(layout), kPageElements / 2);
  layout.mutable_segment(0)->set_element_count(40 * kPageElements + 1);
  EXPECT_EQ(PageElementsOf(layout), kPageElements);
}

TEST(PageMapTest, CutsSegmentsIntoPages) {
  const auto map = PageMap::Create(TwoSegments());
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->num_segments(), 2u);
  EXPECT_EQ(map->num_pages(), 4u);
  ASSERT_EQ(map->pages(0).size(), 3u);
  EXPECT_EQ(map->pages(0)[2].first_element, 20u);
  EXPECT_EQ(map->pages(0)[2].element_count, 5u);
  EXPECT_EQ(map->pages(0)[2].server, 1u);
  ASSERT_EQ(map->pages(1).size(), 1u);
  EXPECT_EQ(map->pages(1)[0].element_count, 10u);
}

TEST(PageMapTest, FindsAPageByItsFirstElementOnly) {
  const auto map = PageMap::Create(TwoSegments());
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(*map->PageAt(0, 20), 2u);
  for (const uint64_t first : {uint64_t{5}, uint64_t{30}, ~uint64_t{0}}) {
    EXPECT_EQ(map->PageAt(0, first).status().code(), absl::StatusCode::kInvalidArgument) << first;
  }
  EXPECT_THAT(std::string(map->PageAt(2, 0).status().message()),
              HasSubstr("segment: found 2, expected less than 2"));
}

TEST(PageMapTest, RefusesPlansThatDoNotFit) {
  v1::Plan plan = TwoSegments();
  plan.mutable_segment_pages(0)->set_server(1, 2);
  EXPECT_THAT(std::string(PageMap::Create(plan).status().message()),
              HasSubstr("plan.segment_pages[0].server[1]: found 2, expected less than 2"));
  plan = TwoSegments();
  plan.mutable_segment_pages(1)->add_server(0);
  EXPECT_THAT(std::string(PageMap::Create(plan).status().message()),
              HasSubstr("found 2 pages, expected 1"));
  plan = TwoSegments();
  plan.mutable_segment_pages()->RemoveLast();
  EXPECT_FALSE(PageMap::Create(plan).ok());
  plan = TwoSegments();
  plan.set_page_elements(0);
  EXPECT_FALSE(PageMap::Create(plan).ok());
}

}  // namespace
}  // namespace sangam
