#include "common/security/identity.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(IdentityTest, ReadsRoleAndName) {
  const auto worker = IdentityFromUris({"spiffe://sangam/role/worker/w-0.a"}, "sangam");
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->role, Role::kWorker);
  EXPECT_EQ(worker->name, "w-0.a");
  EXPECT_EQ(worker->ToString(), "worker/w-0.a");
  const auto any = IdentityFromUris({"spiffe://lab.example/role/client"}, "lab.example");
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_EQ(any->ToString(), "client");
}

TEST(IdentityTest, RefusesEverythingElse) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"spiffe://sangam/role/worker", "spiffe://sangam/role/admin"},
      {"spiffe://sangam/role/worker", "https://example.org"},
      {""},
      {"spiffe://other/role/worker"},
      {"spiffe://sangam.evil/role/worker"},
      {"spiffe://sangam/role/root"},
      {"spiffe://sangam/role/"},
      {"spiffe://sangam/role/Worker"},
      {"spiffe://sangam/role/worker/"},
      {"spiffe://sangam/role/worker/a/b"},
      {"spiffe://sangam/role/worker/a b"},
      {"spiffe://sangam/role/worker/../admin"},
      {std::string("spiffe://sangam/role/worker/a\0b", 31)},
      {"spiffe://sangam/role/worker/" + std::string(129, 'a')},
      {"SPIFFE://sangam/role/worker"},
      {"spiffe://sangam/worker"},
      {"spiffe://sangam/role/worker?x=1"},
  };
  for (const std::vector<std::string>& uris : wrong) {
    EXPECT_EQ(IdentityFromUris(uris, "sangam").status().code(), absl::StatusCode::kInvalidArgument)
        << (uris.empty() ? "none" : uris[0]);
  }
  const auto escaped = IdentityFromUris({"spiffe://\n\x1b[31m"}, "sangam");
  EXPECT_THAT(std::string(escaped.status().message()), HasSubstr("\\n\\x1b"));
}

TEST(IdentityTest, SetsOfRolesNameThemselves) {
  constexpr RoleSet set(Role::kAdmin, Role::kClient);
  EXPECT_TRUE(set.Has(Role::kClient));
  EXPECT_FALSE(set.Has(Role::kWorker));
  EXPECT_EQ(set.ToString(), "client or admin");
  EXPECT_EQ(RoleSet().ToString(), "nobody");
}

}  // namespace
}  // namespace sangam
