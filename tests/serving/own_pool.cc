// Runs a graph whose kernels compute in threads that this program brings, as
// servers do. usage: own_pool LIBRARY GRAPH OUTPUT COUNT_FILE
//
// Writes the bytes of the tensor "output:0" of the graph to OUTPUT, and how
// much work the threads were given to COUNT_FILE.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/threadpool_interface.h"
#include "tensorflow/core/platform/threadpool_options.h"
#include "tensorflow/core/public/session.h"

namespace {

// Threads that are made first, and so have the float mode that the system gives
// them: one made by a kernel would have the kernel's.
class OwnPool : public tsl::thread::ThreadPoolInterface {
 public:
  OwnPool() {
    for (int i = 0; i < NumThreads(); ++i) {
      threads_.emplace_back([this] { WorkUntilEnd(); });
    }
  }
  ~OwnPool() override {
    for (int i = 0; i < NumThreads(); ++i) Schedule(nullptr);
    for (std::thread& thread : threads_) thread.join();
  }

  void Schedule(std::function<void()> work) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_.push(std::move(work));
    ++num_scheduled_;
    has_work_.notify_one();
  }
  int NumThreads() const override { return 4; }
  int CurrentThreadId() const override { return -1; }
  int num_scheduled() const { return num_scheduled_; }

 private:
  // No work means the end.
  void WorkUntilEnd() {
    while (std::function<void()> work = Next()) work();
  }
  std::function<void()> Next() {
    std::unique_lock<std::mutex> lock(mutex_);
    has_work_.wait(lock, [this] { return !work_.empty(); });
    std::function<void()> work = std::move(work_.front());
    work_.pop();
    return work;
  }

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::queue<std::function<void()>> work_;
  int num_scheduled_ = 0;
  std::vector<std::thread> threads_;
};

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

}  // namespace

int main(int, char** arguments) {
  TF_Status* const status = TF_NewStatus();
  TF_LoadLibrary(arguments[1], status);
  if (TF_GetCode(status) != TF_OK) {
    std::fprintf(stderr, "%s\n", TF_Message(status));
    return 1;
  }
  std::ifstream file(arguments[2], std::ios::binary);
  tensorflow::GraphDef graph;
  if (!graph.ParseFromIstream(&file)) return 1;
  tensorflow::SessionOptions options;
  // Constants would be folded, in TensorFlow's own threads.
  tensorflow::GraphOptions& graphs = *options.config.mutable_graph_options();
  graphs.mutable_rewrite_options()->set_disable_meta_optimizer(true);
  graphs.mutable_optimizer_options()->set_opt_level(
      tensorflow::OptimizerOptions::L0);
  const std::unique_ptr<tensorflow::Session> session(
      tensorflow::NewSession(options));
  Check(session->Create(graph));

  OwnPool pool;
  tsl::thread::ThreadPoolOptions pools;
  pools.intra_op_threadpool = &pool;
  std::vector<tensorflow::Tensor> outputs;
  tensorflow::RunMetadata metadata;
  Check(session->Run(tensorflow::RunOptions(), {}, {"output:0"}, {}, &outputs,
                     &metadata, pools));
  const absl::string_view bytes = outputs[0].tensor_data();
  std::ofstream(arguments[3], std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::ofstream(arguments[4]) << pool.num_scheduled();
  Check(session->Close());
}
