#include "common/data/normalisation.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::DataSpec Spec(const std::string& text) {
  v1::DataSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

Table MakeTable(const std::vector<std::vector<float>>& rows) {
  Table table = *Table::Create(rows[0].size(), 1, 1 << 20);
  for (const std::vector<float>& row : rows) {
    const Table::Row place = *table.Add();
    for (size_t c = 0; c < row.size(); ++c) place.inputs[c] = row[c];
    *place.labels = 0;
  }
  return table;
}

std::vector<float> RowOf(const Table& table, uint64_t row) {
  return {table.InputsAt(row), table.InputsAt(row) + table.columns()};
}

TEST(NormalisationTest, OneNumberForAllOrOneForEachChannel) {
  const auto all = NormalisationOf(Spec("mean: 0.5 stddev: 2"), 3);
  ASSERT_TRUE(all.ok());
  EXPECT_THAT(all->mean, ElementsAre(0.5));
  EXPECT_THAT(all->stddev, ElementsAre(2));
  const auto each = NormalisationOf(Spec("channel_mean: [1, 2, 3]"), 3);
  ASSERT_TRUE(each.ok());
  EXPECT_THAT(each->mean, ElementsAre(1, 2, 3));
  EXPECT_THAT(each->stddev, ElementsAre(1, 1, 1));
  Table table = MakeTable({{1, 2, 3, 5, 7, 9}});
  Normalise(*each, &table);
  EXPECT_THAT(RowOf(table, 0), ElementsAre(0, 0, 0, 4, 5, 6));
}

TEST(NormalisationTest, NumbersMustFitTheChannels) {
  EXPECT_THAT(std::string(NormalisationOf(Spec("channel_stddev: [1, 2]"), 3).status().message()),
              HasSubstr("data.channel_stddev: found 2 numbers, expected 3, one for each channel"));
  for (const char* bad : {"mean: nan", "stddev: 0", "channel_mean: inf", "channel_stddev: -1"}) {
    EXPECT_FALSE(NormalisationOf(Spec(bad), 1).ok()) << bad;
  }
}

TEST(NormalisationTest, StatisticsAreThoseOfTheColumns) {
  Table table = MakeTable({{1, 0.1f, 10}, {3, 0.1f, 20}, {5, 0.1f, 60}});
  const Normalisation statistics = ColumnStatistics(table);
  EXPECT_THAT(statistics.mean, ElementsAre(3, ::testing::DoubleNear(0.1, 1e-7), 30));
  EXPECT_NEAR(statistics.stddev[0], 1.6329931618554521, 1e-15);
  EXPECT_EQ(statistics.stddev[1], 0);
  EXPECT_NEAR(statistics.stddev[2], 21.602468994692867, 1e-13);
  Normalise(statistics, &table);
  EXPECT_THAT(RowOf(table, 0), ElementsAre(-1.2247449f, 0, -0.9258201f));
  EXPECT_THAT(RowOf(table, 1), ElementsAre(0, 0, -0.46291006f));
}

TEST(NormalisationTest, BytesOfImagesAreParts) {
  const auto one = NormalisationOf(Spec("channel_mean: [0.5, 0.25] channel_stddev: [2, 4]"), 2);
  const std::vector<float> values = ValuesOfBytes(*one, 1);
  ASSERT_EQ(values.size(), 256);
  EXPECT_EQ(values[0], -0.0625f);
  EXPECT_EQ(values[255], 0.1875f);
}

}  // namespace
}  // namespace sangam
