#include "plan/mesh/Mesh.h"

#include <gtest/gtest.h>

namespace mgc::plan {
namespace {

using Ranks = std::vector<int64_t>;

// rank = ((pp * 2 + dp) * 3 + tpg) * 2 + tpr
Mesh makeMesh() {
  Mesh mesh;
  mesh.axes = {{"pp", 2, plan::AxisRole::stage}, {"dp", 2, plan::AxisRole::data}, {"tpg", 3}, {"tpr", 2}};
  mesh.named = {{"tp", {"tpg", "tpr"}}, {"pt", {"tpr", "tpg"}}, {"dp", {"dp"}}, {"none", {}}};
  return mesh;
}

TEST(Mesh, CoordinatesAreMajorFirst) {
  Mesh mesh = makeMesh();
  int64_t rank = ((1 * 2 + 0) * 3 + 2) * 2 + 1; // 17
  EXPECT_EQ(mesh.worldSize(), 24);
  EXPECT_EQ(coordinate(mesh, rank, {"tpg"}), 2);
  EXPECT_EQ(coordinate(mesh, rank, {"tp"}), 5);
  EXPECT_EQ(coordinate(mesh, rank, {"pt"}), 1 * 3 + 2);
  EXPECT_EQ(coordinate(mesh, rank, {"tpr", "pp"}), 1 * 2 + 1);
  EXPECT_EQ(coordinate(mesh, rank, {}), 0);
  EXPECT_EQ(coordinate(mesh, rank, {"none"}), 0);
}

TEST(Mesh, GroupsAreOrderedByCoordinate) {
  Mesh mesh = makeMesh();
  EXPECT_EQ(groupSize(mesh, {"dp", "tp"}), 12);
  EXPECT_EQ(groupOf(mesh, 17, {"tp"}), (Ranks{12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(groupOf(mesh, 17, {"pt"}), (Ranks{12, 14, 16, 13, 15, 17}));
  EXPECT_EQ(groupOf(mesh, 17, {"tpg"}), (Ranks{13, 15, 17}));
  EXPECT_EQ(groupOf(mesh, 17, {"dp"}), (Ranks{17, 23}));
  EXPECT_EQ(groupOf(mesh, 17, {}), (Ranks{17}));
}

TEST(Mesh, EveryRankFindsItselfAndAllMembersAgree) {
  Mesh mesh = makeMesh();
  for (const Axes &axes : {Axes{"tp"}, Axes{"tpr", "pp"}, Axes{"dp", "tpg"}, Axes{}})
    for (int64_t rank = 0; rank < mesh.worldSize(); ++rank) {
      Ranks group = groupOf(mesh, rank, axes);
      ASSERT_EQ(static_cast<int64_t>(group.size()), groupSize(mesh, axes));
      EXPECT_EQ(group[coordinate(mesh, rank, axes)], rank);
      for (int64_t member : group)
        EXPECT_EQ(groupOf(mesh, member, axes), group);
    }
}

TEST(Mesh, StagesAreTheCoordinateAlongPp) {
  Mesh mesh = makeMesh();
  EXPECT_EQ(stageOf(mesh, 11), 0);
  EXPECT_EQ(stageOf(mesh, 12), 1);
  EXPECT_EQ(stageCount(mesh), 2);
  EXPECT_EQ(rankAtStage(mesh, 17, 0), 5);
  EXPECT_EQ(groupOfStages(mesh, 17, {1, 0}), (Ranks{17, 5}));
  EXPECT_EQ(groupOfStages(mesh, 5, {1, 0}), (Ranks{17, 5}));
}

TEST(Mesh, WithoutPpThereIsOneStage) {
  Mesh mesh;
  mesh.axes = {{"dp", 2, plan::AxisRole::data}};
  EXPECT_EQ(stageCount(mesh), 1);
  EXPECT_EQ(stageOf(mesh, 1), 0);
  EXPECT_EQ(groupOfStages(mesh, 1, {0}), (Ranks{1}));
  mesh.axes.clear();
  EXPECT_EQ(mesh.worldSize(), 1);
  EXPECT_EQ(groupOf(mesh, 0, {}), (Ranks{0}));
}

TEST(Mesh, AxesMustBeInTheMeshAndOnce) {
  Mesh mesh = makeMesh();
  EXPECT_TRUE(verifyMesh(mesh).isOk());
  EXPECT_TRUE(verifyAxes(mesh, {"dp", "tp"}).isOk());
  EXPECT_EQ(verifyAxes(mesh, {"ep"}).message(), "axis 'ep' is not in the mesh; it has pp, dp, tpg, tpr, none, pt, tp");
  EXPECT_EQ(verifyAxes(mesh, {"tp", "tpr"}).message(), "axis 'tpr' comes twice in [tp, tpr]");
}

TEST(Mesh, RefusesWhatIsNoMesh) {
  Mesh mesh = makeMesh();
  mesh.axes[3].size = 0;
  EXPECT_EQ(verifyMesh(mesh).message(), "axis 'tpr' has size 0; expected a positive one");
  mesh = makeMesh();
  mesh.axes[3].name = "pp";
  EXPECT_EQ(verifyMesh(mesh).message(), "axis name 'pp' is empty or comes twice; primitive axes need distinct names");
  mesh = makeMesh();
  mesh.axes = {{"a", int64_t(1) << 40}, {"b", int64_t(1) << 40}};
  EXPECT_EQ(verifyMesh(mesh).message(), "the axis sizes multiply to more ranks than fit into 31 bits");
  mesh = makeMesh();
  mesh.named["dp"] = {"pp"};
  EXPECT_EQ(verifyMesh(mesh).message(), "named axis 'dp' is primitive and must stand for itself, found [pp]");
  mesh = makeMesh();
  mesh.named["tp"] = {"pt"};
  EXPECT_EQ(verifyMesh(mesh).message(), "named axis 'tp' lists 'pt', which is no primitive axis");
  mesh = makeMesh();
  mesh.named["tp"] = {"tpr", "tpr"};
  EXPECT_EQ(verifyMesh(mesh).message(), "named axis 'tp': axis 'tpr' comes twice in [tpr, tpr]");
}

} // namespace
} // namespace mgc::plan
