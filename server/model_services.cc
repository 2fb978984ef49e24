// TokenizerService and ModelService: what they do is in model_calls.h.
#include "quire/v1/model.grpc.pb.h"
#include "quire/v1/tokenizer.grpc.pb.h"
#include "server/grpc_endpoint.h"
#include "server/model_calls.h"
#include "server/unary_call.h"

namespace quire {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

using RawTokenizer = v1::TokenizerService::WithRawCallbackMethod_Tokenize<
    v1::TokenizerService::WithRawCallbackMethod_Detokenize<
        v1::TokenizerService::WithRawCallbackMethod_ApplyChatTemplate<
            v1::TokenizerService::Service>>>;

class TokenizerServiceHandler final : public RawTokenizer {
 public:
  explicit TokenizerServiceHandler(ServerCore& core) : core_(core) {}

  ServerUnaryReactor* Tokenize(CallbackServerContext* context, const ByteBuffer* in,
                               ByteBuffer* out) override {
    return AnswerFromTextWorker<v1::TokenizeRequest>({core_, *context, "Tokenize"}, in, out,
                                                     &quire::Tokenize);
  }
  ServerUnaryReactor* Detokenize(CallbackServerContext* context, const ByteBuffer* in,
                                 ByteBuffer* out) override {
    return AnswerFromTextWorker<v1::DetokenizeRequest>({core_, *context, "Detokenize"}, in, out,
                                                       &quire::Detokenize);
  }
  ServerUnaryReactor* ApplyChatTemplate(CallbackServerContext* context, const ByteBuffer* in,
                                        ByteBuffer* out) override {
    return AnswerFromTextWorker<v1::ApplyChatTemplateRequest>(
        {core_, *context, "ApplyChatTemplate"}, in, out, &quire::ApplyChatTemplate);
  }

 private:
  ServerCore& core_;
};

using RawModel = v1::ModelService::WithRawCallbackMethod_ListModels<
    v1::ModelService::WithRawCallbackMethod_GetModel<v1::ModelService::Service>>;

class ModelServiceHandler final : public RawModel {
 public:
  explicit ModelServiceHandler(ServerCore& core) : core_(core) {}

  ServerUnaryReactor* ListModels(CallbackServerContext* context, const ByteBuffer* in,
                                 ByteBuffer* out) override {
    return AnswerNow<v1::ListModelsRequest>(
        {core_, *context, "ListModels"}, in, out,
        [this](const v1::ListModelsRequest&,
               const CallOrigin&) -> absl::StatusOr<v1::ListModelsResponse> {
          const absl::StatusOr<const ServingModel*> model = core_.ModelForCall();
          if (!model.ok()) return model.status();
          return quire::ListModels(**model);
        });
  }
  ServerUnaryReactor* GetModel(CallbackServerContext* context, const ByteBuffer* in,
                               ByteBuffer* out) override {
    return AnswerNow<v1::GetModelRequest>(
        {core_, *context, "GetModel"}, in, out,
        [this](const v1::GetModelRequest& request,
               const CallOrigin&) -> absl::StatusOr<v1::GetModelResponse> {
          const absl::StatusOr<const ServingModel*> model = core_.ModelForCall();
          if (!model.ok()) return model.status();
          return quire::GetModel(request, **model, core_);
        });
  }

 private:
  ServerCore& core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeTokenizerService(ServerCore& core) {
  return std::make_unique<TokenizerServiceHandler>(core);
}

std::unique_ptr<grpc::Service> MakeModelService(ServerCore& core) {
  return std::make_unique<ModelServiceHandler>(core);
}

}  // namespace quire
