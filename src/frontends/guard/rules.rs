//! Rules of the endpoints: what the sender of a request needs, whatever the servable.

use Rule::{Health, Known};

use crate::auth::Right;

/// Requirement of an endpoint. Rights to servables come on top, from [`Access`](super::Access).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::frontends) enum Rule {
    /// No right, unless the file of `--auth` closes health.
    Health,
    /// An identity; what it sees of servables is up to its rights to each.
    Known,
    /// An identity with a right.
    With(Right),
}

/// Rule of those who manage the server.
const ADMIN: Rule = Rule::With(Right::Admin);

/// The methods of all services with their rules. One that is not here is refused while there are identities.
const METHODS: [(&str, Rule); 31] = [
    ("/inference.GRPCInferenceService/ModelInfer", Known),
    ("/inference.GRPCInferenceService/ModelStreamInfer", Known),
    ("/tensorflow.serving.PredictionService/Predict", Known),
    ("/inference.GRPCInferenceService/ServerLive", Health),
    ("/inference.GRPCInferenceService/ServerReady", Health),
    ("/inference.GRPCInferenceService/ServerMetadata", Known),
    ("/inference.GRPCInferenceService/ModelReady", Known),
    ("/inference.GRPCInferenceService/ModelMetadata", Known),
    ("/inference.GRPCInferenceService/ModelConfig", Known),
    ("/inference.GRPCInferenceService/ModelStatistics", Known),
    ("/inference.GRPCInferenceService/RepositoryIndex", Known),
    ("/inference.GRPCInferenceService/RepositoryModelLoad", ADMIN),
    (
        "/inference.GRPCInferenceService/RepositoryModelUnload",
        ADMIN,
    ),
    (
        "/inference.GRPCInferenceService/SystemSharedMemoryStatus",
        ADMIN,
    ),
    (
        "/inference.GRPCInferenceService/SystemSharedMemoryRegister",
        ADMIN,
    ),
    (
        "/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
        ADMIN,
    ),
    (
        "/inference.GRPCInferenceService/CudaSharedMemoryStatus",
        ADMIN,
    ),
    (
        "/inference.GRPCInferenceService/CudaSharedMemoryRegister",
        ADMIN,
    ),
    (
        "/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
        ADMIN,
    ),
    ("/inference.GRPCInferenceService/TraceSetting", ADMIN),
    ("/inference.GRPCInferenceService/LogSettings", ADMIN),
    (
        "/tensorflow.serving.PredictionService/GetModelMetadata",
        Known,
    ),
    ("/tensorflow.serving.PredictionService/Classify", Known),
    ("/tensorflow.serving.PredictionService/Regress", Known),
    (
        "/tensorflow.serving.PredictionService/MultiInference",
        Known,
    ),
    ("/tensorflow.serving.ModelService/GetModelStatus", Known),
    (
        "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
        ADMIN,
    ),
    ("/grpc.health.v1.Health/Check", Health),
    ("/grpc.health.v1.Health/Watch", Health),
    (
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        Known,
    ),
    (
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        Known,
    ),
];

/// Returns the rule of a method of gRPC, if it has one.
pub(in crate::frontends) fn of_method(path: &str) -> Option<Rule> {
    let mut methods = METHODS.iter();
    methods
        .find(|(method, _)| *method == path)
        .map(|(_, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::{METHODS, of_method};
    use crate::{frontends::kserve::grpc::unserved_methods, proto::DESCRIPTORS};

    /// Returns the paths of all methods that the services have.
    fn served() -> Vec<String> {
        let mut pool = DescriptorPool::new();
        for descriptors in [
            DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ] {
            pool.decode_file_descriptor_set(descriptors).unwrap();
        }
        let methods = pool.services().flat_map(|service| {
            let name = service.full_name().to_owned();
            let methods = service
                .methods()
                .map(move |it| format!("/{name}/{}", it.name()));
            methods.collect::<Vec<_>>()
        });
        let unserved = unserved_methods();
        let unserved = unserved.map(|it| format!("/inference.GRPCInferenceService/{it}"));
        methods.chain(unserved).collect()
    }

    #[test]
    fn every_method_has_a_rule() {
        let served = served();
        assert!(served.len() > 25, "{served:?}");
        let without: Vec<_> = served.iter().filter(|it| of_method(it).is_none()).collect();
        assert!(without.is_empty(), "{without:?}");
        for (path, _) in METHODS {
            assert!(served.iter().any(|it| it == path), "{path} is no method");
        }
        assert!(of_method("/inference.GRPCInferenceService/modelinfer").is_none());
        assert!(of_method("/inference.GRPCInferenceService/ModelInfer/").is_none());
    }
}
