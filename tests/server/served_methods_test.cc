// Every method of every service that the daemons link has its rights.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/security/method_rights.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor_database.h"
#include "gtest/gtest.h"
#include "server/server_daemon.h"
#include "worker/pipeline_server.h"

namespace sangam {
namespace {

using ::testing::Contains;

TEST(ServedMethodsTest, NoMethodIsForgotten) {
  // So that both are linked: the compiler must not know that these are never null.
  auto* volatile server = &ServerDaemon::Start;
  auto* volatile links = &PipelineServer::Start;
  ASSERT_NE(server, nullptr);
  ASSERT_NE(links, nullptr);
  std::vector<std::string> files;
  ASSERT_TRUE(
      google::protobuf::DescriptorPool::internal_generated_database()->FindAllFileNames(&files));
  std::set<std::string> services;
  for (const std::string& name : files) {
    const auto* file = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(name);
    ASSERT_NE(file, nullptr) << name;
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      services.insert(service->full_name());
      for (int m = 0; m < service->method_count(); ++m) {
        const std::string method =
            absl::StrCat("/", service->full_name(), "/", service->method(m)->name());
        EXPECT_FALSE(RolesFor(method).empty())
            << method << " is for nobody: add it to common/security/method_rights.cc";
      }
    }
  }
  for (const char* service :
       {"sangam.v1.JobService", "sangam.v1.ClusterService", "sangam.v1.ParameterService",
        "sangam.v1.AdminService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(services, Contains(service));
  }
  // Of services whose only method is a stream of raw messages no descriptor is linked.
  for (const char* method : {"/sangam.v1.DataService/Feed", "/sangam.v1.PipelineService/Flow"}) {
    EXPECT_FALSE(RolesFor(method).empty()) << method;
  }
}

}  // namespace
}  // namespace sangam
