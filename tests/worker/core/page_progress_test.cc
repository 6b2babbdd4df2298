#include "worker/core/page_progress.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/page_map.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PageProgressTest, APageIsGivenOutWithItsLastElement) {
  PageProgress progress(25, 10);  // pages of 10, 10 and 5
  EXPECT_TRUE(progress.Add(0, 9)->empty());
  EXPECT_EQ(*progress.Add(9, 1), (PageSpan{0, 1}));
  EXPECT_TRUE(progress.Add(20, 4)->empty());
  EXPECT_EQ(*progress.Add(10, 10), (PageSpan{1, 2}));
  EXPECT_EQ(*progress.Add(24, 1), (PageSpan{2, 3}));
  EXPECT_THAT(progress.Rest(), IsEmpty());
}

TEST(PageProgressTest, OneRangeMayCompleteSeveralPages) {
  PageProgress progress(40, 10);
  EXPECT_TRUE(progress.Add(0, 5)->empty());
  EXPECT_EQ(*progress.Add(5, 30), (PageSpan{0, 3}));
  EXPECT_THAT(progress.Rest(), ElementsAre(PageSpan{3, 4}));
  EXPECT_THAT(progress.Rest(), IsEmpty());
}

TEST(PageProgressTest, TheRestIsAllThatWasNotGivenOut) {
  PageProgress progress(60, 10);
  EXPECT_EQ(*progress.Add(20, 10), (PageSpan{2, 3}));
  EXPECT_TRUE(progress.Add(31, 8)->empty());
  EXPECT_THAT(progress.Rest(), ElementsAre(PageSpan{0, 2}, PageSpan{3, 6}));
  EXPECT_THAT(PageProgress(0, 10).Rest(), IsEmpty());
}

TEST(PageProgressTest, InAnyOrderEachPageComesOnce) {
  std::mt19937 random(1);
  for (int run = 0; run < 200; ++run) {
    const uint64_t elements = 1 + random() % 97;
    const uint64_t page = 1 + random() % 13;
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (uint64_t first = 0; first < elements;) {
      const uint64_t count = std::min<uint64_t>(elements - first, random() % 20);
      ranges.emplace_back(first, count);
      first += count;
    }
    std::shuffle(ranges.begin(), ranges.end(), random);
    PageProgress progress(elements, page);
    std::vector<int> given(NumPages(elements, page));
    for (const auto& [first, count] : ranges) {
      const auto pages = progress.Add(first, count);
      ASSERT_TRUE(pages.ok()) << pages.status();
      for (uint32_t p = pages->begin; p < pages->end; ++p) ++given[p];
    }
    EXPECT_THAT(given, ::testing::Each(1)) << elements << " in pages of " << page;
    EXPECT_THAT(progress.Rest(), IsEmpty());
  }
}

TEST(PageProgressTest, RefusesWhatTheSegmentDoesNotHave) {
  PageProgress progress(25, 10);
  const absl::Status beyond = progress.Add(20, 6).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.message()),
              HasSubstr("found elements from 20, 6 of them, expected some of 25"));
  EXPECT_FALSE(progress.Add(~uint64_t{0}, 2).ok());
  ASSERT_TRUE(progress.Add(10, 10).ok());
  EXPECT_THAT(std::string(progress.Add(19, 1).status().message()),
              HasSubstr("page 1: found 1 more elements, expected 0"));
}

}  // namespace
}  // namespace sangam
