#include "plan/mesh/MeshViews.h"

#include <gtest/gtest.h>

namespace mgc::plan {
namespace {

MeshView dense(int64_t tp, int64_t cp, int64_t dp, int64_t pp) {
  return {"dense",
          {{"tp", tp}, {"cp", cp, AxisRole::sequence}, {"dp", dp, AxisRole::data}, {"pp", pp, AxisRole::stage}}};
}

TEST(Views, OneViewIsItsOwnMesh) {
  Result<Mesh> mesh = refine({dense(2, 1, 3, 2)});
  ASSERT_TRUE(mesh.isOk()) << mesh.status().message();
  EXPECT_EQ(mesh->axes, (std::vector<Axis>{{"pp", 2, AxisRole::stage}, {"dp", 3, AxisRole::data}, {"tp", 2}}));
  EXPECT_EQ(mesh->named.at("cp"), Axes());
  EXPECT_EQ(mesh->named.at("dp"), Axes{"dp"});
  EXPECT_TRUE(verifyMesh(*mesh).isOk());
}

TEST(Views, HeadsCutTheTensorAxis) {
  Result<Mesh> mesh = refine({dense(4, 2, 1, 1), {"heads", {{"tpr", 2}, {"tpg", 2}}}});
  ASSERT_TRUE(mesh.isOk());
  EXPECT_EQ(mesh->axes, (std::vector<Axis>{{"cp", 2, AxisRole::sequence}, {"tpg", 2}, {"tpr", 2}}));
  EXPECT_EQ(mesh->named.at("tp"), (Axes{"tpg", "tpr"}));
}

TEST(Views, AnAxisThatIsWholeKeepsTheNameOfTheFirstView) {
  Result<Mesh> mesh = refine({dense(4, 1, 1, 1), {"heads", {{"tpr", 1}, {"tpg", 4}}}});
  ASSERT_TRUE(mesh.isOk());
  EXPECT_EQ(mesh->axes, (std::vector<Axis>{{"tp", 4}}));
  EXPECT_EQ(mesh->named.at("tpg"), Axes{"tp"});
  EXPECT_EQ(mesh->named.at("tpr"), Axes());
}

TEST(Views, ExpertsOverDataAndTensorRanks) { // docs/sharding.md: the worked example
  Result<Mesh> mesh = refine({dense(2, 1, 4, 1), {"experts", {{"ep", 4}, {"edp", 2}}}});
  ASSERT_TRUE(mesh.isOk());
  EXPECT_EQ(mesh->axes, (std::vector<Axis>{{"edp", 2, AxisRole::data}, {"dp.0", 2, AxisRole::data}, {"tp", 2}}));
  EXPECT_EQ(mesh->named.at("dp"), (Axes{"edp", "dp.0"}));
  EXPECT_EQ(mesh->named.at("ep"), (Axes{"dp.0", "tp"}));
  EXPECT_EQ(groupOf(*mesh, 0, {"ep"}), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(Views, RefusesWhatDoesNotRefineWithTheSizesThatDo) {
  Result<Mesh> mesh = refine({dense(2, 3, 1, 1), {"experts", {{"etp", 3}}}});
  ASSERT_FALSE(mesh.isOk());
  EXPECT_EQ(mesh.status().message(),
            "experts: etp = 3 cuts the ranks where the other axes cannot be cut: 3 does not fit to 1, 2, 6\n"
            "  possible etp: 1, 2, 6");
}

TEST(Views, AViewHasNoMoreRanksThanTheFirst) {
  const std::vector<MeshView> views = {dense(2, 1, 2, 1), {"experts", {{"etp", 2}, {"ep", 4}}}};
  EXPECT_FALSE(canRefine(views));
  EXPECT_EQ(refine(views).status().message(),
            "experts: the axis sizes multiply to 8 ranks; expected at most the 4 of dense");
}

TEST(Views, RefusesSizesBelowOneAndTooManyRanks) {
  EXPECT_FALSE(refine({dense(0, 1, 1, 1)}).isOk());
  EXPECT_FALSE(refine({dense(int64_t(1) << 20, 1, int64_t(1) << 20, 1)}).isOk());
}

// In every refinement a rank has the coordinate of plain division along each axis of each view.
TEST(Views, CoordinatesAreThoseOfEachView) {
  for (int64_t tp : {1, 2, 4, 6})
    for (int64_t groups : {1, 2})
      for (int64_t cp : {1, 2, 4}) {
        if (tp % groups != 0)
          continue;
        const std::vector<MeshView> views = {dense(tp, cp, 2, 3), {"heads", {{"tpr", tp / groups}, {"tpg", groups}}}};
        Result<Mesh> mesh = refine(views);
        ASSERT_TRUE(mesh.isOk()) << mesh.status().message();
        for (const MeshView &view : views)
          for (int64_t rank = 0; rank < mesh->worldSize(); ++rank) {
            int64_t rest = rank;
            for (const Axis &axis : view.axes) {
              EXPECT_EQ(coordinate(*mesh, rank, {axis.name}), rest % axis.size) << axis.name;
              rest /= axis.size;
            }
          }
      }
}

} // namespace
} // namespace mgc::plan
