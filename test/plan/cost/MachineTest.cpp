// Machine files: those of the library, and hostile ones.
#include "plan/cost/Machine.h"
#include "plan/KernelLevel.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace mgc;
using namespace mgc::cost;

namespace {

using Json = nlohmann::json;

// A valid machine file, for tests that change it.
Json goodJson() {
  return Json::parse(R"({
    "name": "toy", "device": "a toy", "target": "cuda:sm_90", "flops": {"f32": 1e12, "bf16": 1e13},
    "products": {"units": 4, "start_depth": 8, "tiles": [{"m": 16, "n": 8, "fraction": 0.5}]},
    "attention": {"forward": 0.5, "backward": 0.4}, "rows": 0.5,
    "memory": {"bytes": 1e9, "bandwidth": 1e12, "fraction": 0.8},
    "host": {"bytes": 1e10, "bandwidth": 1e11, "fraction": 0.8}, "launch": 1e-6,
    "links": [{"ranks": 2, "bandwidth": 1e10, "fraction": 0.8, "latency": 1e-6},
              {"ranks": 8, "bandwidth": 1e9, "fraction": 0.8, "latency": 1e-6},
              {"bandwidth": 1e8, "fraction": 0.8, "latency": 1e-5}],
    "sources": {"flops": "a", "products": "a", "attention": "a", "rows": "a", "memory": "a", "host": "a", "launch": "a", "links": "a"}})");
}

std::string refusalOf(const std::string &text) {
  Result<Machine> machine = parseMachine(text);
  return machine.isOk() ? "accepted" : machine.status().message();
}

// The message when the value at the pointer is replaced.
std::string refusalWith(const char *pointer, const Json &value) {
  Json json = goodJson();
  json[Json::json_pointer(pointer)] = value;
  return refusalOf(json.dump());
}

std::string refusalWithout(const char *parent, const char *name) {
  Json json = goodJson();
  json[Json::json_pointer(parent)].erase(name);
  return refusalOf(json.dump());
}

void expectIn(const std::string &message, const std::string &part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nexpected: " << part;
}

// --- Machines of the library ---------------------------------------------------------------------------------

TEST(Machines, AllAreRead) {
  EXPECT_EQ(machineNames(), (std::vector<std::string>{"cpu", "a100", "h100", "h200", "b200", "gb200", "rtx-4090",
                                                      "l40s", "a6000", "rtx-5090"}));
  for (const std::string &name : machineNames()) {
    Result<Machine> machine = findMachine(name);
    ASSERT_TRUE(machine.isOk()) << name << ": " << machine.status().message();
    EXPECT_EQ(machine->name, name);
  }
}

TEST(Machines, DatasheetNumbers) {
  const Machine h100 = *findMachine("h100");
  EXPECT_DOUBLE_EQ(h100.flops.bf16, 989.4e12);
  EXPECT_DOUBLE_EQ(h100.memory.bandwidth, 3.35e12);
  EXPECT_EQ(h100.links[0].ranks, 8);
  EXPECT_DOUBLE_EQ(h100.links[0].bandwidth, 450e9);
  EXPECT_DOUBLE_EQ(h100.links[1].bandwidth, 50e9);
  EXPECT_DOUBLE_EQ(findMachine("h200")->memory.bandwidth, 4.8e12);
  EXPECT_DOUBLE_EQ(findMachine("b200")->links[0].bandwidth, 900e9);
  EXPECT_EQ(findMachine("gb200")->links[0].ranks, 64); // powers of two of a rack's 72
  EXPECT_DOUBLE_EQ(findMachine("gb200")->flops.bf16, 360e15 / 2 / 72);
  EXPECT_DOUBLE_EQ(findMachine("rtx-4090")->flops.bf16, 165.2e12);
  EXPECT_DOUBLE_EQ(findMachine("rtx-4090")->memory.bytes, 24e9);
  EXPECT_DOUBLE_EQ(findMachine("l40s")->memory.bandwidth, 864e9);
  EXPECT_DOUBLE_EQ(findMachine("a6000")->flops.bf16, 154.8e12);
  EXPECT_DOUBLE_EQ(findMachine("rtx-5090")->memory.bandwidth, 1792e9);
}

TEST(Machines, EachTargetHasOne) {
  for (const plan::KernelLevelFacts &level : plan::kKernelLevels)
    if (level.target == plan::Target::cuda)
      EXPECT_EQ(machineForTarget(fmt::format("cuda:{}", level.name)).target, fmt::format("cuda:{}", level.name));
}

TEST(Machines, TargetChooses) {
  EXPECT_EQ(machineForTarget("cuda:sm_80").name, "a100");
  EXPECT_EQ(machineForTarget("cuda:sm_90").name, "h100");
  EXPECT_EQ(machineForTarget("cuda:sm_100").name, "b200");
  EXPECT_EQ(machineForTarget("cuda:sm_86").name, "a6000");
  EXPECT_EQ(machineForTarget("cuda:sm_89").name, "rtx-4090");
  EXPECT_EQ(machineForTarget("cuda:sm_120").name, "rtx-5090");
  EXPECT_EQ(machineForTarget("cpu").name, "cpu");
}

TEST(Machines, UnknownNameListsNames) {
  expectIn(findMachine("h1000").status().message(), "h1000: is neither a machine nor a file; expected one of cpu, "
                                                    "a100, h100, h200, b200, gb200, rtx-4090, l40s, a6000, rtx-5090");
}

TEST(Machines, FileIsNamed) {
  const std::string path = testing::TempDir() + "machine.json";
  std::ofstream(path) << "{}";
  expectIn(findMachine(path).status().message(), path + ": machine: \"name\" is missing");
  std::ofstream(path) << goodJson().dump();
  EXPECT_EQ(findMachine(path)->name, "toy");
  EXPECT_FALSE(findMachine(testing::TempDir()).isOk()); // a folder
}

TEST(Machines, TextIsThatOfTheFile) {
  for (const std::string &name : machineNames()) {
    Result<std::string> text = machineText(name);
    ASSERT_TRUE(text.isOk()) << name << ": " << text.status().message();
    EXPECT_EQ(parseMachine(*text)->device, findMachine(name)->device);
  }
  const std::string path = testing::TempDir() + "printed.json", text = goodJson().dump() + " \n";
  std::ofstream(path) << text;
  EXPECT_EQ(*machineText(path), text);
  std::ofstream(path) << "{}";
  EXPECT_EQ(machineText(path).status().message(), findMachine(path).status().message());
}

// --- Files -----------------------------------------------------------------------------------------------------

TEST(MachineFile, GoodIsRead) {
  Result<Machine> machine = parseMachine(goodJson().dump());
  ASSERT_TRUE(machine.isOk()) << machine.status().message();
  EXPECT_EQ(machine->products.tiles[0].m, 16);
  EXPECT_EQ(machine->links[2].ranks, 0);
  EXPECT_EQ(machine->links[2].base, 0);
  EXPECT_EQ(machine->links[2].units, 0);
  EXPECT_EQ(machine->sources.at("rows"), "a");
}

TEST(MachineFile, NotJson) {
  expectIn(refusalOf(""), "not JSON");
  expectIn(refusalOf("{\"name\": NaN}"), "not JSON");
  expectIn(refusalOf("{\"rows\": 1e999}"), "not JSON");
  expectIn(refusalOf("{\"name\": 1, \"name\": 2}"), "is given twice");
  expectIn(refusalOf(std::string(100000, '[')), "nested deeper");
  expectIn(refusalOf("[]"), "machine: found a list of 0, expected an object");
}

TEST(MachineFile, MissingFields) {
  const Json good = goodJson();
  ASSERT_FALSE(good.empty());
  for (const auto &[name, value] : good.items())
    expectIn(refusalWithout("", name.c_str()), "machine: \"" + name + "\" is missing");
  expectIn(refusalWithout("/links/0", "ranks"), "machine.links[0].ranks: is not there; expected how many ranks");
  expectIn(refusalWithout("/memory", "fraction"), "machine.memory: \"fraction\" is missing");
  expectIn(refusalWithout("/sources", "links"), "machine.sources: \"links\" is missing");
}

TEST(MachineFile, UnknownFields) {
  expectIn(refusalWith("/color", "red"), "machine: \"color\" is no field of this object");
  expectIn(refusalWith("/flops/fp8", 1e15), "machine.flops: \"fp8\" is no field of this object");
  expectIn(refusalWith("/sources/color", "a"), "machine.sources: \"color\" is no field with numbers");
  expectIn(refusalWith("/sources/\x1b[31m", 1), "machine.sources.\\x1b[31m: found 1");
  expectIn(refusalWith(("/sources/" + std::string(1000, 'x')).c_str(), 1),
           "machine.sources." + std::string(160, 'x') + "...: found 1");
}

TEST(MachineFile, WrongTypes) {
  expectIn(refusalWith("/flops/f32", "fast"), "machine.flops.f32: found \"fast\", expected a number");
  expectIn(refusalWith("/products/units", 1.5), "machine.products.units: found 1.5, expected an integer");
  expectIn(refusalWith("/links", 3), "machine.links: found 3, expected a list");
}

TEST(MachineFile, WrongValues) {
  for (const char *rate : {"/flops/f32", "/flops/bf16", "/memory/bytes", "/memory/bandwidth", "/links/1/bandwidth"})
    for (double value : {0.0, -1.0, 1e300})
      expectIn(refusalWith(rate, value), "expected a number from 1 to");
  for (const char *fraction : {"/attention/forward", "/attention/backward", "/rows", "/memory/fraction",
                               "/links/0/fraction", "/products/tiles/0/fraction"})
    for (double value : {0.0, -0.5, 1.5, 5e-324})
      expectIn(refusalWith(fraction, value), "expected a fraction");
  for (const char *seconds : {"/launch", "/links/2/latency", "/links/2/base"})
    for (double value : {-1e-6, 2.0})
      expectIn(refusalWith(seconds, value), "expected a number from 0 to 1");
  for (const char *count : {"/products/units", "/products/tiles/0/m", "/products/tiles/0/n"})
    for (int64_t value : {int64_t(0), int64_t(-1), int64_t(1) << 40})
      expectIn(refusalWith(count, value), "expected a whole number from 1 to");
  expectIn(refusalWith("/target", "tpu"), "machine.target: found \"tpu\", expected one of cpu, cuda:sm_80");
  expectIn(refusalWith("/name", ""), "machine.name: found an empty string");
}

TEST(MachineFile, WrongLinks) {
  expectIn(refusalWith("/links", Json::array()), "machine.links: found 0 levels, expected 1 to 8");
  expectIn(refusalWith("/links/2/ranks", 16), "machine.links[2].ranks: found 16, expected nothing");
  expectIn(refusalWith("/links/1/ranks", 2), "expected a larger multiple of the 2 ranks of the level before");
  expectIn(refusalWith("/links/1/ranks", 5), "expected a larger multiple of the 2 ranks of the level before");
  expectIn(refusalWith("/links/1/units", 4), "machine.links[1].units: found 4, expected a whole number from 0 to 3");
  expectIn(refusalWith("/products/tiles", Json::array()), "machine.products.tiles: found 0 tiles");
}

TEST(MachineFile, AllViolationsAtOnce) {
  Json json = goodJson();
  json["launch"] = -1;
  json["rows"] = 7;
  expectIn(refusalOf(json.dump()), "machine.launch");
  expectIn(refusalOf(json.dump()), "machine.rows");
}

} // namespace
