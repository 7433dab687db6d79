#include "runtime/base/MachineMemory.h"
#include "test/runtime/TempDir.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::test;

namespace {

// A machine's files, by path.
class Machine {
public:
  Machine() { write("/proc/meminfo", "MemTotal:  9000 kB\nMemFree:  1 kB\nMemAvailable:    1000 kB\n"); }
  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path() + path).parent_path());
    folder_.write(path.substr(1), text);
  }
  // A control group's limit, what it uses, and its statistics, if any.
  void writeGroup(const std::string &folder, const char *most, const char *current, const char *statistics = "") {
    write(folder + "memory.max", most);
    write(folder + "memory.current", current);
    if (*statistics)
      write(folder + "memory.stat", statistics);
  }
  void link(const std::string &path, const std::string &target) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path() + path).parent_path());
    std::filesystem::create_symlink(target, folder_.path() + path);
  }
  // The limits that are none of this process itself.
  std::vector<MemoryLimit> limits() const {
    std::vector<MemoryLimit> found = memoryLimits(folder_.path());
    std::erase_if(found, [](const MemoryLimit &limit) { return limit.of == MemoryLimit::Of::process; });
    return found;
  }
  std::string group() const { return memoryGroup(folder_.path()); }

private:
  TempDir folder_;
};

} // namespace

TEST(MachineMemory, whatIsAvailable) {
  const Machine machine;
  ASSERT_EQ(machine.limits().size(), 1u);
  EXPECT_EQ(machine.limits()[0].of, MemoryLimit::Of::machine);
  EXPECT_EQ(machine.limits()[0].available, 1000 * 1024);
  EXPECT_EQ(machine.group(), "");
}

TEST(MachineMemory, groupsAndThoseAboveThem) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/slurm/job_7\n");
  machine.writeGroup("/sys/fs/cgroup/slurm/job_7/", "5000\n", "3000\n",
                     "anon 500\nfile 9\ninactive_file 2000\nactive_file 300\nactive_file_other 7\n");
  machine.writeGroup("/sys/fs/cgroup/slurm/", "max\n", "3000\n");
  machine.writeGroup("/sys/fs/cgroup/", "800\n", "900\n");
  const std::vector<MemoryLimit> limits = machine.limits();
  ASSERT_EQ(limits.size(), 3u);
  EXPECT_EQ(limits[1].group, "/slurm/job_7");
  EXPECT_EQ(limits[1].available, 5000 - (3000 - 2300));
  EXPECT_EQ(limits[1].name, "memory.max of the control group /slurm/job_7");
  EXPECT_EQ(limits[2].group, "/");
  EXPECT_EQ(limits[2].available, 0);
  EXPECT_EQ(machine.group(), "/slurm/job_7");
}

TEST(MachineMemory, swapAndSlabsAreAvailable) {
  Machine machine;
  machine.write("/proc/meminfo", "MemAvailable:    1000 kB\nSwapFree: 50 kB\n");
  machine.write("/proc/self/cgroup", "0::/a\n");
  machine.writeGroup("/sys/fs/cgroup/a/", "90000\n", "30000\n", "slab_reclaimable 10000\nslab_unreclaimable 7\n");
  EXPECT_EQ(machine.limits().at(0).available, 1050 * 1024);
  EXPECT_EQ(machine.limits().at(1).available, 70000); // nothing says what swap it has
  machine.write("/sys/fs/cgroup/a/memory.swap.max", "9000\n");
  machine.write("/sys/fs/cgroup/a/memory.swap.current", "2000\n");
  EXPECT_EQ(machine.limits().at(1).available, 77000);
  machine.write("/sys/fs/cgroup/a/memory.swap.max", "max\n");
  EXPECT_EQ(machine.limits().at(1).available, 70000 + 50 * 1024);
}

// Containers have namespaces of groups of their own, and "/" in each is another group.
TEST(MachineMemory, groupsOfContainers) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/\n");
  machine.link("/proc/self/ns/cgroup", "cgroup:[4026531835]");
  machine.writeGroup("/sys/fs/cgroup/", "90000\n", "30000\n");
  EXPECT_EQ(machine.group(), "cgroup:[4026531835]/");
  EXPECT_EQ(machine.limits().at(1).group, machine.group());
  EXPECT_EQ(machine.limits().at(1).name, "memory.max of the control group /");
  EXPECT_TRUE(isInGroup("cgroup:[4026531835]/a", machine.group()));
  EXPECT_FALSE(isInGroup("cgroup:[4026539999]/", machine.group()));
}

TEST(MachineMemory, groupsOfVersion1) {
  Machine machine;
  machine.write("/proc/self/cgroup", "5:cpu,memory:/a/b\n1:name=systemd:/c\n0::/d\n");
  const std::string folder = "/sys/fs/cgroup/memory/a/b/";
  machine.write(folder + "memory.limit_in_bytes", "5000\n");
  machine.write(folder + "memory.usage_in_bytes", "3000\n");
  machine.write(folder + "memory.stat", "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50\n");
  const std::vector<MemoryLimit> limits = machine.limits();
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[1].available, 5000 - (3000 - 150));
  EXPECT_EQ(machine.group(), "/a/b");
}

TEST(MachineMemory, filesThatAreNotWhatTheyShouldBe) {
  for (const char *text : {"", "nonsense", "::", "0::", "4:memory:relative/path", "0::/../..\n"}) {
    Machine machine;
    machine.write("/proc/self/cgroup", text);
    machine.write("/proc/meminfo", "MemAvailable: lots\nMemAvailable");
    EXPECT_TRUE(machine.limits().empty()) << text;
  }
}

TEST(MachineMemory, membersOfGroups) {
  EXPECT_TRUE(isInGroup("/a/b", "/a/b"));
  EXPECT_TRUE(isInGroup("/a/b", "/a"));
  EXPECT_TRUE(isInGroup("/a/b", "/"));
  EXPECT_FALSE(isInGroup("/a/b", "/a/b/c"));
  EXPECT_FALSE(isInGroup("/ab", "/a"));
}

TEST(MachineMemory, thisMachine) {
  EXPECT_GT(memoryLimits().at(0).available, 0);
  EXPECT_GT(freeAddressSpace(), 0);
}
