# Names, which only a server or a file knows: the program is asked for them.
function __ovms_names
    set -l before (commandline -opc)
    set -l token (commandline -ct)
    # Files after the @ of an input.
    if string match -qr '^(-i|--input=)?([^=@]*=)?@' -- "$token"
        set -l head (string match -r '^(?:--input=)?((?:[^=@]*=)?@)' -- "$token")[2]
        set -l path (string replace -r '^[^@]*@' '' -- "$token")
        for file in (__fish_complete_path "$path" file)
            echo -- "$head$file"
        end
        return
    end
    set -l program $before[1]
    type -fq -- "$program"; or set program ovms
    set -l all (commandline -op)
    set -l after $all[(math (count $before) + 1)..]
    test -n "$token"; and set -e after[1]
    set -l answer ($program complete fish --at (count $before) -- $before "$token" $after 2>/dev/null </dev/null)
    test (count $answer) -gt 1; and printf '%s\n' $answer[2..]
end

function __ovms_has_names
    string match -q -- '-*' (commandline -ct); and return 1
    set -l words (commandline -opc)
    string match -qr '^(infer|pipeline|graph|serve|--config_path(=.*)?)$' -- $words[2..]; or return 1
    set -g __ovms_answer (__ovms_names)
    test (count $__ovms_answer) -gt 0
end

# Arguments without a flag that are no files.
complete -c ovms -n '__fish_seen_subcommand_from infer setup doctor completions man' -f
complete -c ovms -n '__fish_seen_subcommand_from completions' -a 'bash zsh fish powershell elvish'
complete -c ovms -n '__fish_seen_subcommand_from man' -a 'serve infer pipeline graph setup doctor completions man'
complete -c ovms -n __ovms_has_names -f -k -a '$__ovms_answer'

# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_ovms_global_optspecs
    string join \n q/quiet h/help V/version
end

function __fish_ovms_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_ovms_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_ovms_using_subcommand
    set -l cmd (__fish_ovms_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c ovms -n "__fish_ovms_needs_command" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_needs_command" -s h -l help -d 'Print help'
complete -c ovms -n "__fish_ovms_needs_command" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "serve" -d 'Serve models, pipelines and graphs over gRPC and REST'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "infer" -d 'Send inference requests to a server, or ask what it serves'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "pipeline" -d 'Write, draw, check and try pipelines'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "graph" -d 'Write, draw, check and try graphs with Python nodes'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "setup" -d 'Find or install the OpenVINO runtime'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "doctor" -d 'Diagnose the installation'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "completions" -d 'Print a shell\'s completion script, or install it'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "man" -d 'Show a page of the manual, or write all of them'
complete -c ovms -n "__fish_ovms_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l model_name -d 'Name that clients use for the model' -r -f -a "(__ovms_names)"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l model_path -d 'Folder with the model\'s version folders or with one model, or a model file' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l demo -d 'Serve the built-in example, a classifier of drawn shapes' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l model_version_policy -d 'Versions to serve: \'{"latest":{"num_versions":2}}\', \'{"specific":{"versions":[1,3]}}\' or \'{"all":{}}\' [default: the latest one]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l batch_size -d 'Batch size: a number, a range such as 1:8, -1 for any, or auto for that of each request' -r -f -a "auto\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l shape -d 'Shape of the input, such as \'(1,3,224,224)\', \'(1:8,3,-1,-1)\' or auto; or a JSON object of shapes by input name' -r -f -a "auto\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l layout -d 'Layout of the input, such as NHWC, or NHWC:NCHW for requests in NHWC to a model in NCHW; or a JSON object of layouts by input and output name' -r -f -a "NCHW\t''
NHWC\t''
CHW\t''
HWC\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l mean -d 'Numbers to subtract from the input: 123.7, or one for each channel: \'(123.7,116.8,103.9)\'' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l scale -d 'Numbers to divide the input by: 58.4, or one for each channel: \'(58.4,57.1,57.4)\'' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l color_format -d 'Colors of the model and of requests, such as RGB:BGR for requests in BGR to a model in RGB' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l precision -d 'Element types of the model and of requests, such as fp32:uint8 for requests of bytes' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l nireq -d 'Number of infer requests: inferences that run in parallel; 0 lets the device choose' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l inference_timeout_ms -d 'Timeout of an inference in milliseconds: the client gets an error, and a compiled model that does not end is replaced; 0 disables it' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l target_device -d 'Device to run on, such as CPU, GPU, AUTO [default: CPU]' -r -f -a "CPU\t''
GPU\t''
NPU\t''
AUTO\t''
HETERO\t''
MULTI\t''
BATCH\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l plugin_config -d 'Device properties as a JSON object, such as \'{"NUM_STREAMS":2}\'' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l stateful -d 'Keep the model\'s state between the requests of a sequence' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l idle_sequence_cleanup -d 'Remove idle sequences; needs --stateful [default: true]' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l low_latency_transformation -d 'Apply OpenVINO\'s low latency transformation; needs --stateful [default: false]' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_sequence_number -d 'Maximum number of sequences; needs --stateful [default: 500]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l drain_sequences_seconds -d 'Seconds that sequences may continue when their version is reloaded or retired, or the server stops; needs --stateful [default: 0]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l sequence_cleaner_poll_wait_minutes -d 'Minutes between two scans for idle sequences; 0 disables them' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l config_path -d 'JSON file with the models to serve, instead of --model_name and --model_path' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l file_system_poll_wait_seconds -d 'Seconds between two checks of the file and of the version folders; 0 means only on POST /v1/config/reload' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l custom_node_resources_cleaner_interval_seconds -d 'Seconds between two cleanups of custom node resources; 0 disables them' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l cache_dir -d 'Cache folder for compiled models, for a faster start; created if missing [default: /opt/cache if there is such a folder]' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l cpu_extension -d 'Shared library with custom operations for the CPU' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l port -d 'gRPC port; 0 disables gRPC' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l rest_port -d 'REST port; 0 disables REST' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l management_port -d 'Port for health, metrics, and reload only; 0 disables it' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l grpc_bind_address -d 'Addresses or host names for gRPC, separated by commas [default: 0.0.0.0; with --demo 127.0.0.1]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l rest_bind_address -d 'Addresses or host names for REST, separated by commas [default: 0.0.0.0; with --demo 127.0.0.1]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l management_bind_address -d 'Addresses or host names for management, separated by commas [default: those of REST]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l grpc_channel_arguments -d 'gRPC channel arguments by their names in gRPC C++, such as grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; unsupported ones are logged' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l grpc_max_concurrent_streams -d 'Maximum number of concurrent streams of a gRPC connection [default: 128]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l no_dashboard -d 'Disable the web dashboard' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l allow_credentials -d 'Allow cross-origin requests with credentials' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l allowed_origins -d 'Access-Control-Allow-Origin header of responses, except those of management; empty omits it' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l allowed_methods -d 'Access-Control-Allow-Methods header of the same responses; empty omits it' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l allowed_headers -d 'Access-Control-Allow-Headers header of the same responses; empty omits it' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l allowed_hosts -d 'Host names under which browsers may use management pages, separated by commas [default: loopback names and the bound addresses]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l api_key_file -d 'File with the API key for /v3, in its first line' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l allowed_local_media_path -d 'Folder of local files that requests to /v3 may refer to [default: none]' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l log_level -d 'Minimum level to log: TRACE, DEBUG, INFO, WARNING, ERROR' -r -f -a "TRACE\t''
DEBUG\t''
INFO\t''
WARNING\t''
ERROR\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l log_path -d 'Log file, in addition to stdout' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l log_format -d 'Format of the log: text, or one JSON object per line' -r -f -a "text\t''
json\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l access_log -d 'Access log file, one line per request; - is stdout [default: none]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l metrics_enable -d 'Expose Prometheus metrics at /metrics of the REST port' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l metrics_list -d 'Metric families to expose, separated by commas; needs --metrics_enable [default: the usual ones]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l python_environment -d 'Virtual environment with the packages of Python nodes [default: the active one]' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l hide_python_errors -d 'Hide exceptions of Python nodes from clients; they are still logged' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_message_size -d 'Maximum size of a message or body in bytes, compressed and decompressed' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_bytes_in_flight -d 'Maximum bytes of all requests and responses in flight, as received, decompressed, decoded and queued; further requests are rejected (RESOURCE_EXHAUSTED, 503) [default: a quarter of the memory]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_connections -d 'Maximum number of connections of each port; further ones wait, and idle ones are closed for them' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_connections_per_address -d 'Maximum number of connections from one address; further ones are closed; 0 means no limit' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_queued_requests -d 'Maximum number of queued requests of a model; further ones are rejected (UNAVAILABLE, 503)' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_custom_node_runs -d 'Maximum number of concurrent runs of a custom node; further ones wait' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l custom_node_load_seconds -d 'Timeout in seconds for loading the custom nodes of a pipeline' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_graph_runs -d 'Maximum number of concurrent runs of a graph; further ones wait' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l graph_load_seconds -d 'Timeout in seconds for loading a graph with its Python nodes' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_streams -d 'Maximum number of open streams (ModelStreamInfer); further ones are rejected (UNAVAILABLE)' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_python_runs -d 'Maximum number of concurrent runs of Python nodes, sleeping ones included; further ones wait' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_image_pixels -d 'Maximum number of pixels of an image, checked before it is decoded' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l recovery_interval_ms -d 'Minimum milliseconds between two replacements of a compiled model after failed inferences' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l hide_inference_errors -d 'Hide the reasons of failed inferences from clients; they are still logged' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l max_string_elements -d 'Maximum number of strings of an input' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l read_timeout_seconds -d 'Timeout in seconds for the next bytes of a request' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l write_timeout_seconds -d 'Timeout in seconds for a client to take 64 KiB of a response' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l idle_timeout_seconds -d 'Timeout in seconds for idle connections; much shorter when the limit of connections is near' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l min_receive_rate -d 'Minimum rate of a request body in bytes per second, after the read timeout; 0 means no minimum' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l loading_wait_seconds -d 'Seconds that a request waits for a version that is loading' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l reload_wait_seconds -d 'Seconds that the response to a reload waits for retired versions to be unloaded; 0 means it does not wait' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l shutdown_timeout_seconds -d 'Seconds that requests in flight may take after SIGINT or SIGTERM; a second signal exits at once' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l check -d 'Check flags, files, models, pipelines and graphs, then exit' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l list_models -d 'List the models below --model_repository_path' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l add_to_config -d 'Add --model_name with --model_path to the file of --config_path; created if missing' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l remove_from_config -d 'Remove --model_name from the file of --config_path; comments are kept' -r -f -a "true\t''
false\t''"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l model_repository_path -d 'Folder with one folder per model' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l output -d 'Output format' -r -f -a "table\t'Text for people'
json\t'The same as one JSON object'"
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l grpc_workers -d 'Number of gRPC servers, from 1 to the number of cores' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l grpc_max_threads -d 'Most threads for gRPC; 0 means no cap [default: 8 for each core]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l grpc_memory_quota -d 'Most bytes of buffers for gRPC; 0 means no quota' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -l rest_workers -d 'Number of threads for REST, from 2 to 10000 [default: one for each core]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand serve" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand serve" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -s i -l input -d 'Input value: JSON, @FILE, or - for standard input' -r -f -a "(__ovms_names)"
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l seed -d 'Seed of the random values' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l layout -d 'Layout of images: NCHW, NHWC, CHW or HWC' -r -f -a "NCHW\t''
NHWC\t''
CHW\t''
HWC\t''"
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l mean -d 'Mean to subtract from the values, which are 0 to 255: one number, or one per channel' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l scale -d 'Scale to divide the values by after that: one number, or one per channel' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l model-version -d 'Version of the model [default: the server\'s choice]' -r -f -a "(__ovms_names)"
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l output-name -d 'Request only this output' -r -f -a "(__ovms_names)"
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l id -d 'Request id, which the response repeats (KServe only)' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l param -l parameter -d 'Send a request parameter' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l output -d 'Output format' -r -f -a "table\t'A table of outputs, scores, latencies or models'
json\t'The same as one JSON object; `null` stands for what is not a finite number, and `not_finite` tells what it is'
npy\t'The output as the bytes of a .npy file'
raw\t'The output\'s bytes, little endian'"
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l save -d 'Save each output as a .npy file in this folder' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l top -d 'Show the K highest scores of the last axis of the output' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l labels -d 'File with the label of each score, one per line' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l axis -d 'Cut the inputs along this axis, counted from 0 [default: 0]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l sequence-id -d 'Id of the sequence [default: a random one]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l requests -d 'File with one request per line; - is standard input' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l timestamp -d 'Timestamp of the first request; the next ones have N + 1, N + 2, …' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l repeat -d 'Send the request N times and measure latencies' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l duration -d 'Send the request repeatedly for this long, such as 10s, and measure latencies' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l concurrency -d 'Number of concurrent requests [default: 1]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l warmup -d 'Number of warm-up requests, which are not measured' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l url -d 'Address of the server [default: localhost:9000, or localhost:8000 over REST]' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l api -d 'Protocol to use' -r -f -a "kserve-grpc\t'KServe v2 over gRPC'
kserve-rest\t'KServe v2 over REST'
tfs-grpc\t'TensorFlow Serving over gRPC'
tfs-rest\t'TensorFlow Serving over REST'"
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l timeout -d 'Timeout of the connection and of each request' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l header -d 'HTTP header or gRPC metadata to send with each request' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l status -d 'Show the versions of the model and their states'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l metadata -d 'Show the inputs and outputs of the model'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l print-curl -d 'Print the request as a curl command (grpcurl over gRPC) instead of sending it'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l show-secrets -d 'Show credentials in the output of --print-curl'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l zeros -d 'Fill all other inputs with zeros'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l random -d 'Fill all other inputs with random values'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l bgr -d 'Send channels as BGR; means and scales follow this order'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l raw -d 'Send tensors as raw bytes over gRPC (default)'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l typed -d 'Send tensors in typed fields over gRPC'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l binary -d 'Send and ask for tensors as bytes over kserve-rest (default)'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l json-data -d 'Send and ask for tensors as JSON over REST (over tfs-rest always so)'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l sequence -d 'Send the inputs step by step as one sequence: start, steps, end'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l each -d 'Show the outputs of each step as they come, a line for each step'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l start -d 'Send one request that starts a sequence'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l continue -d 'Send one request of a sequence that was started'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l end -d 'Send the last request of a sequence'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -l stream -d 'Send requests over one stream, and show responses as they arrive'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand infer" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and not __fish_seen_subcommand_from new show check run help" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and not __fish_seen_subcommand_from new show check run help" -s h -l help -d 'Print help'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and not __fish_seen_subcommand_from new show check run help" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and not __fish_seen_subcommand_from new show check run help" -f -a "new" -d 'Write a configuration file with a pipeline, or the skeleton of a custom node'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and not __fish_seen_subcommand_from new show check run help" -f -a "show" -d 'Draw a pipeline of a configuration file'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and not __fish_seen_subcommand_from new show check run help" -f -a "check" -d 'Find all errors of the pipelines of a configuration file'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and not __fish_seen_subcommand_from new show check run help" -f -a "run" -d 'Run a pipeline once, in this process, and tell where the time goes'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and not __fish_seen_subcommand_from new show check run help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -l custom-node -d 'Write a custom node in C++ that works, into the folder DIR, or NAME if none is given' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -l output -d 'Output format' -r -f -a "table\t'Text for people'
json\t'The same as one JSON object'"
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -l force -d 'Replace files that are there'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -f -a "chain" -d 'Connect models one after the other'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -f -a "demultiplexer" -d 'Run models for each part of a tensor'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from new" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from show" -l format -l output -d 'Choose what to draw' -r -f -a "text\t'Boxes and arrows for a terminal'
dot\t'For Graphviz'
mermaid\t'For Markdown'
svg\t'A diagram'
html\t'A page'
json\t'For programs'"
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from show" -s o -l out -d 'Write to this file; - is standard output' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from show" -l ascii -d 'Draw with the characters of ASCII only'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from show" -l no-custom-nodes -d 'Do not open the libraries of custom nodes'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from check" -l cpu_extension -d 'Shared library with custom operations for the CPU' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from check" -l output -d 'Output format' -r -f -a "table\t'The errors of each pipeline, with their places in the file'
json\t'The same as one JSON object'"
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from check" -l no-custom-nodes -d 'Do not open the libraries of custom nodes'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -s i -l input -d 'Input value: JSON, @FILE, or - for standard input' -r -f -a "(__ovms_names)"
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l seed -d 'Seed of the random values' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l layout -d 'Layout of images: NCHW, NHWC, CHW or HWC' -r -f -a "NCHW\t''
NHWC\t''
CHW\t''
HWC\t''"
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l mean -d 'Mean to subtract from the values, which are 0 to 255: one number, or one per channel' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l scale -d 'Scale to divide the values by after that: one number, or one per channel' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l repeat -d 'Send the request N times and measure latencies' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l warmup -d 'Number of warm-up requests, which are not measured' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l output -d 'Output format' -r -f -a "table\t'Tables of nodes, runs and outputs'
json\t'The same as one JSON object; times in microseconds'"
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l save-intermediate -d 'Save the inputs and outputs of every run as .npy files in this folder' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l zeros -d 'Fill all other inputs with zeros'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l random -d 'Fill all other inputs with random values'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l bgr -d 'Send channels as BGR; means and scales follow this order'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -l all -d 'Show the runs for every part of a demultiplexed level, not only the first few'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from help" -f -a "new" -d 'Write a configuration file with a pipeline, or the skeleton of a custom node'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from help" -f -a "show" -d 'Draw a pipeline of a configuration file'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from help" -f -a "check" -d 'Find all errors of the pipelines of a configuration file'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run a pipeline once, in this process, and tell where the time goes'
complete -c ovms -n "__fish_ovms_using_subcommand pipeline; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -s h -l help -d 'Print help'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -f -a "new" -d 'Write a graph with Python nodes that works, with a test and a README'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -f -a "show" -d 'Draw a graph'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -f -a "check" -d 'Find all errors of a graph and of its Python handlers'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -f -a "run" -d 'Run a graph once, in this process, and show each packet'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -f -a "stubs" -d 'Install the module `pyovms` for tests and editors into a virtual environment'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and not __fish_seen_subcommand_from new show check run stubs help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -l nodes -d 'Make these Python nodes, one after the other' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -l model -d 'Put a model between two Python nodes: a name of the configuration file, or a model\'s folder' -r -f -a "(__ovms_names)"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -s i -l input -d 'Name an input, with type and shape if they are known' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -l output-name -d 'Name an output, with type and shape if they are known' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -l dir -d 'Folder to write to [default: NAME]' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -l config -d 'Add the graph to this configuration file, instead of one in its folder' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -l output -d 'Output format' -r -f -a "table\t'Text for people'
json\t'The same as one JSON object'"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -l generative -d 'Make the last Python node a generator'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -l force -d 'Replace files that are there'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from new" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from show" -l format -l output -d 'Choose what to draw' -r -f -a "text\t'Boxes and arrows for a terminal'
dot\t'For Graphviz'
mermaid\t'For Markdown'
svg\t'A diagram'
html\t'A page'
json\t'For programs'"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from show" -s o -l out -d 'Write to this file; - is standard output' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from show" -l ascii -d 'Draw with the characters of ASCII only'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from check" -l python_environment -d 'Virtual environment with the packages of Python nodes [default: the active one]' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from check" -l output -d 'Output format' -r -f -a "table\t'The errors of each graph and handler, with their places'
json\t'The same as one JSON object'"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from check" -l no-python -d 'Do not import handlers'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from check" -l initialize -d 'Make the objects of handlers, as the server does'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -s i -l input -d 'Input value: JSON, @FILE, or - for standard input' -r -f -a "(__ovms_names)"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l seed -d 'Seed of the random values' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l layout -d 'Layout of images: NCHW, NHWC, CHW or HWC' -r -f -a "NCHW\t''
NHWC\t''
CHW\t''
HWC\t''"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l mean -d 'Mean to subtract from the values, which are 0 to 255: one number, or one per channel' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l scale -d 'Scale to divide the values by after that: one number, or one per channel' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l requests -d 'File with one request per line; - is standard input' -r -F
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l timestamp -d 'Timestamp of the first request; the next ones have N + 1, N + 2, …' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l param -l parameter -d 'Send a request parameter' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l python_environment -d 'Virtual environment with the packages of Python nodes [default: the active one]' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l output -d 'Output format' -r -f -a "table\t'A line for each packet, and a table of the nodes'
json\t'The same as one JSON object in each line, the nodes in the last; times in microseconds'"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l zeros -d 'Fill all other inputs with zeros'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l random -d 'Fill all other inputs with random values'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -l bgr -d 'Send channels as BGR; means and scales follow this order'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from stubs" -l into -d 'Virtual environment, or a folder of modules' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from stubs" -l output -d 'Output format' -r -f -a "table\t'Text for people'
json\t'The same as one JSON object'"
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from stubs" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from stubs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from stubs" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from help" -f -a "new" -d 'Write a graph with Python nodes that works, with a test and a README'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from help" -f -a "show" -d 'Draw a graph'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from help" -f -a "check" -d 'Find all errors of a graph and of its Python handlers'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run a graph once, in this process, and show each packet'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from help" -f -a "stubs" -d 'Install the module `pyovms` for tests and editors into a virtual environment'
complete -c ovms -n "__fish_ovms_using_subcommand graph; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ovms -n "__fish_ovms_using_subcommand setup" -l dir -d 'Folder for the virtual environment with the runtime' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand setup" -l python -d 'Python to make the virtual environment with, 3.11 or newer' -r -f -a "python3\t''"
complete -c ovms -n "__fish_ovms_using_subcommand setup" -l output -d 'Output format' -r -f -a "table\t'Text for people'
json\t'The same as one JSON object'"
complete -c ovms -n "__fish_ovms_using_subcommand setup" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand setup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand setup" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand doctor" -l port -d 'Port for gRPC to look at' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand doctor" -l rest_port -d 'Port for REST to look at' -r -f
complete -c ovms -n "__fish_ovms_using_subcommand doctor" -l output -d 'Output format' -r -f -a "table\t'Text for people'
json\t'The same as one JSON object'"
complete -c ovms -n "__fish_ovms_using_subcommand doctor" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand completions" -l install -d 'Write the script to where the shell looks for it, and say what is left to do'
complete -c ovms -n "__fish_ovms_using_subcommand completions" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand completions" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand man" -l dir -d 'Write all pages to this folder' -r -f -a "(__fish_complete_directories)"
complete -c ovms -n "__fish_ovms_using_subcommand man" -s q -l quiet -d 'Suppress progress and informational messages'
complete -c ovms -n "__fish_ovms_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ovms -n "__fish_ovms_using_subcommand man" -s V -l version -d 'Print version'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "serve" -d 'Serve models, pipelines and graphs over gRPC and REST'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "infer" -d 'Send inference requests to a server, or ask what it serves'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "pipeline" -d 'Write, draw, check and try pipelines'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "graph" -d 'Write, draw, check and try graphs with Python nodes'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "setup" -d 'Find or install the OpenVINO runtime'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "doctor" -d 'Diagnose the installation'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "completions" -d 'Print a shell\'s completion script, or install it'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "man" -d 'Show a page of the manual, or write all of them'
complete -c ovms -n "__fish_ovms_using_subcommand help; and not __fish_seen_subcommand_from serve infer pipeline graph setup doctor completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from pipeline" -f -a "new" -d 'Write a configuration file with a pipeline, or the skeleton of a custom node'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from pipeline" -f -a "show" -d 'Draw a pipeline of a configuration file'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from pipeline" -f -a "check" -d 'Find all errors of the pipelines of a configuration file'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from pipeline" -f -a "run" -d 'Run a pipeline once, in this process, and tell where the time goes'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from graph" -f -a "new" -d 'Write a graph with Python nodes that works, with a test and a README'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from graph" -f -a "show" -d 'Draw a graph'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from graph" -f -a "check" -d 'Find all errors of a graph and of its Python handlers'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from graph" -f -a "run" -d 'Run a graph once, in this process, and show each packet'
complete -c ovms -n "__fish_ovms_using_subcommand help; and __fish_seen_subcommand_from graph" -f -a "stubs" -d 'Install the module `pyovms` for tests and editors into a virtual environment'
