//! Models: formats, shapes, devices, storages, versions and their reload.

mod bad_models;
mod batch_limits;
mod batch_regions;
mod batching;
mod cache;
mod copied_strings;
mod devices;
mod formats;
mod layouts;
mod limits;
mod loading;
mod paths;
mod reload_config;
mod reload_folders;
mod reload_versions;
mod shapes;
mod sheets;
mod storage;
mod storage_clouds;
mod storage_errors;
