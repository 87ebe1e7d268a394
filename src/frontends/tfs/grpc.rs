//! The two services of the protocol over gRPC.

use std::{collections::BTreeMap, sync::Arc};

use prost::Message;
use tonic::{Request, Response, Status};

use super::{SIGNATURE, SIGNATURES_TYPE, loaded, status, tensors, wire_type_of};
use crate::{
    engine::{Engine, Facts},
    error::{Error, ErrorKind, Result},
    frontends::{deadline, reply, unary::Unary},
    pipeline::Side,
    proto::{
        tensorflow::{SignatureDef, TensorInfo, TensorShapeProto, tensor_shape_proto::Dim},
        tensorflow_serving::{
            ClassificationRequest, ClassificationResponse, GetModelMetadataRequest,
            GetModelMetadataResponse, GetModelStatusRequest, GetModelStatusResponse, ModelSpec,
            MultiInferenceRequest, MultiInferenceResponse, PredictRequest, PredictResponse,
            RegressionRequest, RegressionResponse, ReloadConfigRequest, ReloadConfigResponse,
            SignatureDefMap, model_service_server::ModelService, model_spec::VersionChoice,
            prediction_service_server::PredictionService,
        },
    },
    request::{Api, Interface, Origin},
    sequence::{self, Arrival},
    task,
};

const ORIGIN: Origin = Origin {
    api: Api::TensorFlowServing,
    interface: Interface::Grpc,
};

/// The metadata that can be asked for.
const SIGNATURE_DEF: &str = "signature_def";

/// Both services.
#[derive(Debug, Clone)]
pub struct TfsService {
    engine: Arc<Engine>,
}

impl TfsService {
    /// Makes the services of an engine.
    #[must_use]
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    fn metadata(&self, request: GetModelMetadataRequest) -> Result<GetModelMetadataResponse> {
        let (name, version) = asked(request.model_spec)?;
        if request.metadata_field != [SIGNATURE_DEF] {
            return Err(Error::invalid("Invalid signature name"));
        }
        let (part, facts) = loaded(&self.engine, &name, version, ORIGIN)?;
        let signature = SignatureDef {
            inputs: infos(&facts, Side::Input),
            outputs: infos(&facts, Side::Output),
            ..SignatureDef::default()
        };
        let signatures = SignatureDefMap {
            signature_def: [(SIGNATURE.to_owned(), signature)].into(),
        };
        let any = prost_types::Any {
            type_url: SIGNATURES_TYPE.to_owned(),
            value: signatures.encode_to_vec(),
        };
        Ok(GetModelMetadataResponse {
            model_spec: Some(ModelSpec {
                name,
                version_choice: Some(VersionChoice::Version(part.number())),
                ..ModelSpec::default()
            }),
            metadata: [(SIGNATURE_DEF.to_owned(), any)].into(),
        })
    }

    fn status(&self, request: GetModelStatusRequest) -> Result<GetModelStatusResponse> {
        let (name, version) = asked(request.model_spec)?;
        let versions = status::versions(&self.engine, &name, version, ORIGIN)?;
        Ok(GetModelStatusResponse {
            model_version_status: versions.iter().map(status::message).collect(),
        })
    }
}

/// Returns name and version of what a request is for; labels and signatures are not looked at.
fn asked(spec: Option<ModelSpec>) -> Result<(String, Option<i64>)> {
    let spec = spec.ok_or_else(|| Error::invalid("model_spec missing in request"))?;
    let version = match spec.version_choice {
        Some(VersionChoice::Version(number)) if number != 0 => Some(number),
        _ => None,
    };
    Ok((spec.name, version))
}

fn infos(facts: &Facts, side: Side) -> BTreeMap<String, TensorInfo> {
    let tensors = match side {
        Side::Input => &facts.info().inputs,
        Side::Output => &facts.info().outputs,
    };
    tensors
        .iter()
        .map(|tensor| {
            let info = TensorInfo {
                name: tensor.name.clone(),
                dtype: wire_type_of(facts, side, tensor).into(),
                tensor_shape: Some(TensorShapeProto {
                    dim: tensor
                        .shape
                        .wire()
                        .into_iter()
                        .map(|size| Dim {
                            size,
                            name: String::new(),
                        })
                        .collect(),
                    unknown_rank: false,
                }),
            };
            (tensor.name.clone(), info)
        })
        .collect()
}

impl Unary for TfsService {
    type Request = PredictRequest;
    type Response = PredictResponse;

    const PATH: &str = "/tensorflow.serving.PredictionService/Predict";

    fn model(request: &PredictRequest) -> Option<&str> {
        Some(&request.model_spec.as_ref()?.name)
    }

    async fn run(
        &self,
        mut request: PredictRequest,
        effort: usize,
        arrival: Arc<Arrival>,
    ) -> Result<PredictResponse> {
        let (name, version) = asked(request.model_spec.take())?;
        let find = self.engine.find(&name, version, ORIGIN);
        let target = arrival.finds(&name, find).await?.arrived(arrival);
        let stateful = target.is_stateful();
        let decode = move || tensors::decode(request, stateful);
        let request = task::sized("unpack", effort, decode).await?;
        Ok(tensors::encode(target.infer(request).await?))
    }

    fn size(answer: &PredictResponse) -> usize {
        answer
            .outputs
            .values()
            .map(|tensor| {
                let strings = tensor.string_val.iter().map(bytes::Bytes::len);
                tensor.tensor_content.len() + strings.sum::<usize>() + tensor.string_val.len()
            })
            .sum()
    }
}

#[tonic::async_trait]
impl PredictionService for TfsService {
    async fn predict(
        &self,
        request: Request<PredictRequest>,
    ) -> Result<Response<PredictResponse>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let arrival = sequence::arrival::of(&extensions);
        // What comes this way was packed by the client, so nobody is in a hurry.
        let effort = request.encoded_len();
        deadline::within(deadline::of_headers(metadata.as_ref()), async {
            self.run(request, effort, arrival)
                .await
                .map(Response::new)
                .map_err(|error| reply::status(&error))
        })
        .await
    }

    async fn get_model_metadata(
        &self,
        request: Request<GetModelMetadataRequest>,
    ) -> Result<Response<GetModelMetadataResponse>, Status> {
        self.metadata(request.into_inner())
            .map(Response::new)
            .map_err(|error| reply::status(&error))
    }

    async fn classify(
        &self,
        _: Request<ClassificationRequest>,
    ) -> Result<Response<ClassificationResponse>, Status> {
        Err(unserved("Classify"))
    }

    async fn regress(
        &self,
        _: Request<RegressionRequest>,
    ) -> Result<Response<RegressionResponse>, Status> {
        Err(unserved("Regress"))
    }

    async fn multi_inference(
        &self,
        _: Request<MultiInferenceRequest>,
    ) -> Result<Response<MultiInferenceResponse>, Status> {
        Err(unserved("MultiInference"))
    }
}

#[tonic::async_trait]
impl ModelService for TfsService {
    async fn get_model_status(
        &self,
        request: Request<GetModelStatusRequest>,
    ) -> Result<Response<GetModelStatusResponse>, Status> {
        self.status(request.into_inner())
            .map(Response::new)
            .map_err(|error| reply::status(&error))
    }

    /// Good and without effect, as start scripts that send it expect.
    async fn handle_reload_config_request(
        &self,
        _: Request<ReloadConfigRequest>,
    ) -> Result<Response<ReloadConfigResponse>, Status> {
        Ok(Response::new(ReloadConfigResponse::default()))
    }
}

fn unserved(call: &str) -> Status {
    reply::status(&Error::new(
        ErrorKind::Unimplemented,
        format!("Functionality not implemented - {call}; send requests with Predict"),
    ))
}
