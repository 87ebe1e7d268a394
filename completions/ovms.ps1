
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'ovms' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    # Names, which only a server or a file knows: the program is asked for them.
    $words = @($commandAst.CommandElements | ForEach-Object {
        if ($_ -is [StringConstantExpressionAst]) { $_.Value } else { $_.Extent.Text }
    })
    $asking = '^(infer|pipeline|graph|serve|--config_path(=.*)?)$'
    if (@($words | Select-Object -Skip 1 | Where-Object { $_ -match $asking }).Count -gt 0) {
        $at = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition }).Count
        $program = Get-Command -Name $words[0] -CommandType Application -ErrorAction SilentlyContinue |
            Select-Object -First 1
        if ($null -eq $program) {
            $program = Get-Command -Name ovms -CommandType Application -ErrorAction SilentlyContinue |
                Select-Object -First 1
        }
        $answer = @()
        if ($null -ne $program) {
            $answer = @(& $program complete powershell --at $at -- $words 2>$null)
        }
        $names = @($answer | Select-Object -Skip 1 | ForEach-Object {
            $word, $about = $_ -split "`t", 2
            if ([string]::IsNullOrEmpty($about)) { $about = $word }
            [CompletionResult]::new($word, $word, [CompletionResultType]::ParameterValue, $about)
        } | Where-Object { $_.CompletionText.Trim("'") -like "$([WildcardPattern]::Escape($wordToComplete.Trim("'")))*" })
        if ($names.Count -gt 0) {
            return $names
        }
    }


    $commandElements = $commandAst.CommandElements
    $command = @(
        'ovms'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'ovms' {
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve models, pipelines and graphs over gRPC and REST')
            [CompletionResult]::new('infer', 'infer', [CompletionResultType]::ParameterValue, 'Send inference requests to a server, or ask what it serves')
            [CompletionResult]::new('pipeline', 'pipeline', [CompletionResultType]::ParameterValue, 'Write, draw, check and try pipelines')
            [CompletionResult]::new('graph', 'graph', [CompletionResultType]::ParameterValue, 'Write, draw, check and try graphs with Python nodes')
            [CompletionResult]::new('setup', 'setup', [CompletionResultType]::ParameterValue, 'Find or install the OpenVINO runtime')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Diagnose the installation')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a shell''s completion script, or install it')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Show a page of the manual, or write all of them')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;serve' {
            [CompletionResult]::new('--model_name', '--model_name', [CompletionResultType]::ParameterName, 'Name that clients use for the model')
            [CompletionResult]::new('--model_path', '--model_path', [CompletionResultType]::ParameterName, 'Folder with the model''s version folders or with one model, or a model file')
            [CompletionResult]::new('--demo', '--demo', [CompletionResultType]::ParameterName, 'Serve the built-in example, a classifier of drawn shapes')
            [CompletionResult]::new('--model_version_policy', '--model_version_policy', [CompletionResultType]::ParameterName, 'Versions to serve: ''{"latest":{"num_versions":2}}'', ''{"specific":{"versions":[1,3]}}'' or ''{"all":{}}'' [default: the latest one]')
            [CompletionResult]::new('--batch_size', '--batch_size', [CompletionResultType]::ParameterName, 'Batch size: a number, a range such as 1:8, -1 for any, or auto for that of each request')
            [CompletionResult]::new('--shape', '--shape', [CompletionResultType]::ParameterName, 'Shape of the input, such as ''(1,3,224,224)'', ''(1:8,3,-1,-1)'' or auto; or a JSON object of shapes by input name')
            [CompletionResult]::new('--layout', '--layout', [CompletionResultType]::ParameterName, 'Layout of the input, such as NHWC, or NHWC:NCHW for requests in NHWC to a model in NCHW; or a JSON object of layouts by input and output name')
            [CompletionResult]::new('--mean', '--mean', [CompletionResultType]::ParameterName, 'Numbers to subtract from the input: 123.7, or one for each channel: ''(123.7,116.8,103.9)''')
            [CompletionResult]::new('--scale', '--scale', [CompletionResultType]::ParameterName, 'Numbers to divide the input by: 58.4, or one for each channel: ''(58.4,57.1,57.4)''')
            [CompletionResult]::new('--color_format', '--color_format', [CompletionResultType]::ParameterName, 'Colors of the model and of requests, such as RGB:BGR for requests in BGR to a model in RGB')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Element types of the model and of requests, such as fp32:uint8 for requests of bytes')
            [CompletionResult]::new('--nireq', '--nireq', [CompletionResultType]::ParameterName, 'Number of infer requests: inferences that run in parallel; 0 lets the device choose')
            [CompletionResult]::new('--inference_timeout_ms', '--inference_timeout_ms', [CompletionResultType]::ParameterName, 'Timeout of an inference in milliseconds: the client gets an error, and a compiled model that does not end is replaced; 0 disables it')
            [CompletionResult]::new('--target_device', '--target_device', [CompletionResultType]::ParameterName, 'Device to run on, such as CPU, GPU, AUTO [default: CPU]')
            [CompletionResult]::new('--plugin_config', '--plugin_config', [CompletionResultType]::ParameterName, 'Device properties as a JSON object, such as ''{"NUM_STREAMS":2}''')
            [CompletionResult]::new('--stateful', '--stateful', [CompletionResultType]::ParameterName, 'Keep the model''s state between the requests of a sequence')
            [CompletionResult]::new('--idle_sequence_cleanup', '--idle_sequence_cleanup', [CompletionResultType]::ParameterName, 'Remove idle sequences; needs --stateful [default: true]')
            [CompletionResult]::new('--low_latency_transformation', '--low_latency_transformation', [CompletionResultType]::ParameterName, 'Apply OpenVINO''s low latency transformation; needs --stateful [default: false]')
            [CompletionResult]::new('--max_sequence_number', '--max_sequence_number', [CompletionResultType]::ParameterName, 'Maximum number of sequences; needs --stateful [default: 500]')
            [CompletionResult]::new('--drain_sequences_seconds', '--drain_sequences_seconds', [CompletionResultType]::ParameterName, 'Seconds that sequences may continue when their version is reloaded or retired, or the server stops; needs --stateful [default: 0]')
            [CompletionResult]::new('--sequence_cleaner_poll_wait_minutes', '--sequence_cleaner_poll_wait_minutes', [CompletionResultType]::ParameterName, 'Minutes between two scans for idle sequences; 0 disables them')
            [CompletionResult]::new('--config_path', '--config_path', [CompletionResultType]::ParameterName, 'JSON file with the models to serve, instead of --model_name and --model_path')
            [CompletionResult]::new('--file_system_poll_wait_seconds', '--file_system_poll_wait_seconds', [CompletionResultType]::ParameterName, 'Seconds between two checks of the file and of the version folders; 0 means only on POST /v1/config/reload')
            [CompletionResult]::new('--custom_node_resources_cleaner_interval_seconds', '--custom_node_resources_cleaner_interval_seconds', [CompletionResultType]::ParameterName, 'Seconds between two cleanups of custom node resources; 0 disables them')
            [CompletionResult]::new('--cache_dir', '--cache_dir', [CompletionResultType]::ParameterName, 'Cache folder for compiled models, for a faster start; created if missing [default: /opt/cache if there is such a folder]')
            [CompletionResult]::new('--cpu_extension', '--cpu_extension', [CompletionResultType]::ParameterName, 'Shared library with custom operations for the CPU')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'gRPC port; 0 disables gRPC')
            [CompletionResult]::new('--rest_port', '--rest_port', [CompletionResultType]::ParameterName, 'REST port; 0 disables REST')
            [CompletionResult]::new('--management_port', '--management_port', [CompletionResultType]::ParameterName, 'Port for health, metrics, and reload only; 0 disables it')
            [CompletionResult]::new('--grpc_bind_address', '--grpc_bind_address', [CompletionResultType]::ParameterName, 'Addresses or host names for gRPC, separated by commas [default: 0.0.0.0; with --demo 127.0.0.1]')
            [CompletionResult]::new('--rest_bind_address', '--rest_bind_address', [CompletionResultType]::ParameterName, 'Addresses or host names for REST, separated by commas [default: 0.0.0.0; with --demo 127.0.0.1]')
            [CompletionResult]::new('--management_bind_address', '--management_bind_address', [CompletionResultType]::ParameterName, 'Addresses or host names for management, separated by commas [default: those of REST]')
            [CompletionResult]::new('--grpc_channel_arguments', '--grpc_channel_arguments', [CompletionResultType]::ParameterName, 'gRPC channel arguments by their names in gRPC C++, such as grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; unsupported ones are logged')
            [CompletionResult]::new('--grpc_max_concurrent_streams', '--grpc_max_concurrent_streams', [CompletionResultType]::ParameterName, 'Maximum number of concurrent streams of a gRPC connection [default: 128]')
            [CompletionResult]::new('--no_dashboard', '--no_dashboard', [CompletionResultType]::ParameterName, 'Disable the web dashboard')
            [CompletionResult]::new('--allow_credentials', '--allow_credentials', [CompletionResultType]::ParameterName, 'Allow cross-origin requests with credentials')
            [CompletionResult]::new('--allowed_origins', '--allowed_origins', [CompletionResultType]::ParameterName, 'Access-Control-Allow-Origin header of responses, except those of management; empty omits it')
            [CompletionResult]::new('--allowed_methods', '--allowed_methods', [CompletionResultType]::ParameterName, 'Access-Control-Allow-Methods header of the same responses; empty omits it')
            [CompletionResult]::new('--allowed_headers', '--allowed_headers', [CompletionResultType]::ParameterName, 'Access-Control-Allow-Headers header of the same responses; empty omits it')
            [CompletionResult]::new('--allowed_hosts', '--allowed_hosts', [CompletionResultType]::ParameterName, 'Host names under which browsers may use management pages, separated by commas [default: loopback names and the bound addresses]')
            [CompletionResult]::new('--api_key_file', '--api_key_file', [CompletionResultType]::ParameterName, 'File with the API key for /v3, in its first line')
            [CompletionResult]::new('--allowed_local_media_path', '--allowed_local_media_path', [CompletionResultType]::ParameterName, 'Folder of local files that requests to /v3 may refer to [default: none]')
            [CompletionResult]::new('--log_level', '--log_level', [CompletionResultType]::ParameterName, 'Minimum level to log: TRACE, DEBUG, INFO, WARNING, ERROR')
            [CompletionResult]::new('--log_path', '--log_path', [CompletionResultType]::ParameterName, 'Log file, in addition to stdout')
            [CompletionResult]::new('--log_format', '--log_format', [CompletionResultType]::ParameterName, 'Format of the log: text, or one JSON object per line')
            [CompletionResult]::new('--access_log', '--access_log', [CompletionResultType]::ParameterName, 'Access log file, one line per request; - is stdout [default: none]')
            [CompletionResult]::new('--metrics_enable', '--metrics_enable', [CompletionResultType]::ParameterName, 'Expose Prometheus metrics at /metrics of the REST port')
            [CompletionResult]::new('--metrics_list', '--metrics_list', [CompletionResultType]::ParameterName, 'Metric families to expose, separated by commas; needs --metrics_enable [default: the usual ones]')
            [CompletionResult]::new('--python_environment', '--python_environment', [CompletionResultType]::ParameterName, 'Virtual environment with the packages of Python nodes [default: the active one]')
            [CompletionResult]::new('--hide_python_errors', '--hide_python_errors', [CompletionResultType]::ParameterName, 'Hide exceptions of Python nodes from clients; they are still logged')
            [CompletionResult]::new('--max_message_size', '--max_message_size', [CompletionResultType]::ParameterName, 'Maximum size of a message or body in bytes, compressed and decompressed')
            [CompletionResult]::new('--max_bytes_in_flight', '--max_bytes_in_flight', [CompletionResultType]::ParameterName, 'Maximum bytes of all requests and responses in flight, as received, decompressed, decoded and queued; further requests are rejected (RESOURCE_EXHAUSTED, 503) [default: a quarter of the memory]')
            [CompletionResult]::new('--max_connections', '--max_connections', [CompletionResultType]::ParameterName, 'Maximum number of connections of each port; further ones wait, and idle ones are closed for them')
            [CompletionResult]::new('--max_connections_per_address', '--max_connections_per_address', [CompletionResultType]::ParameterName, 'Maximum number of connections from one address; further ones are closed; 0 means no limit')
            [CompletionResult]::new('--max_queued_requests', '--max_queued_requests', [CompletionResultType]::ParameterName, 'Maximum number of queued requests of a model; further ones are rejected (UNAVAILABLE, 503)')
            [CompletionResult]::new('--max_custom_node_runs', '--max_custom_node_runs', [CompletionResultType]::ParameterName, 'Maximum number of concurrent runs of a custom node; further ones wait')
            [CompletionResult]::new('--custom_node_load_seconds', '--custom_node_load_seconds', [CompletionResultType]::ParameterName, 'Timeout in seconds for loading the custom nodes of a pipeline')
            [CompletionResult]::new('--max_graph_runs', '--max_graph_runs', [CompletionResultType]::ParameterName, 'Maximum number of concurrent runs of a graph; further ones wait')
            [CompletionResult]::new('--graph_load_seconds', '--graph_load_seconds', [CompletionResultType]::ParameterName, 'Timeout in seconds for loading a graph with its Python nodes')
            [CompletionResult]::new('--max_streams', '--max_streams', [CompletionResultType]::ParameterName, 'Maximum number of open streams (ModelStreamInfer); further ones are rejected (UNAVAILABLE)')
            [CompletionResult]::new('--max_python_runs', '--max_python_runs', [CompletionResultType]::ParameterName, 'Maximum number of concurrent runs of Python nodes, sleeping ones included; further ones wait')
            [CompletionResult]::new('--max_image_pixels', '--max_image_pixels', [CompletionResultType]::ParameterName, 'Maximum number of pixels of an image, checked before it is decoded')
            [CompletionResult]::new('--recovery_interval_ms', '--recovery_interval_ms', [CompletionResultType]::ParameterName, 'Minimum milliseconds between two replacements of a compiled model after failed inferences')
            [CompletionResult]::new('--hide_inference_errors', '--hide_inference_errors', [CompletionResultType]::ParameterName, 'Hide the reasons of failed inferences from clients; they are still logged')
            [CompletionResult]::new('--max_string_elements', '--max_string_elements', [CompletionResultType]::ParameterName, 'Maximum number of strings of an input')
            [CompletionResult]::new('--read_timeout_seconds', '--read_timeout_seconds', [CompletionResultType]::ParameterName, 'Timeout in seconds for the next bytes of a request')
            [CompletionResult]::new('--write_timeout_seconds', '--write_timeout_seconds', [CompletionResultType]::ParameterName, 'Timeout in seconds for a client to take 64 KiB of a response')
            [CompletionResult]::new('--idle_timeout_seconds', '--idle_timeout_seconds', [CompletionResultType]::ParameterName, 'Timeout in seconds for idle connections; much shorter when the limit of connections is near')
            [CompletionResult]::new('--min_receive_rate', '--min_receive_rate', [CompletionResultType]::ParameterName, 'Minimum rate of a request body in bytes per second, after the read timeout; 0 means no minimum')
            [CompletionResult]::new('--loading_wait_seconds', '--loading_wait_seconds', [CompletionResultType]::ParameterName, 'Seconds that a request waits for a version that is loading')
            [CompletionResult]::new('--reload_wait_seconds', '--reload_wait_seconds', [CompletionResultType]::ParameterName, 'Seconds that the response to a reload waits for retired versions to be unloaded; 0 means it does not wait')
            [CompletionResult]::new('--shutdown_timeout_seconds', '--shutdown_timeout_seconds', [CompletionResultType]::ParameterName, 'Seconds that requests in flight may take after SIGINT or SIGTERM; a second signal exits at once')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Check flags, files, models, pipelines and graphs, then exit')
            [CompletionResult]::new('--list_models', '--list_models', [CompletionResultType]::ParameterName, 'List the models below --model_repository_path')
            [CompletionResult]::new('--add_to_config', '--add_to_config', [CompletionResultType]::ParameterName, 'Add --model_name with --model_path to the file of --config_path; created if missing')
            [CompletionResult]::new('--remove_from_config', '--remove_from_config', [CompletionResultType]::ParameterName, 'Remove --model_name from the file of --config_path; comments are kept')
            [CompletionResult]::new('--model_repository_path', '--model_repository_path', [CompletionResultType]::ParameterName, 'Folder with one folder per model')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--grpc_workers', '--grpc_workers', [CompletionResultType]::ParameterName, 'Number of gRPC servers, from 1 to the number of cores')
            [CompletionResult]::new('--grpc_max_threads', '--grpc_max_threads', [CompletionResultType]::ParameterName, 'Most threads for gRPC; 0 means no cap [default: 8 for each core]')
            [CompletionResult]::new('--grpc_memory_quota', '--grpc_memory_quota', [CompletionResultType]::ParameterName, 'Most bytes of buffers for gRPC; 0 means no quota')
            [CompletionResult]::new('--rest_workers', '--rest_workers', [CompletionResultType]::ParameterName, 'Number of threads for REST, from 2 to 10000 [default: one for each core]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;infer' {
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Input value: JSON, @FILE, or - for standard input')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'Input value: JSON, @FILE, or - for standard input')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the random values')
            [CompletionResult]::new('--layout', '--layout', [CompletionResultType]::ParameterName, 'Layout of images: NCHW, NHWC, CHW or HWC')
            [CompletionResult]::new('--mean', '--mean', [CompletionResultType]::ParameterName, 'Mean to subtract from the values, which are 0 to 255: one number, or one per channel')
            [CompletionResult]::new('--scale', '--scale', [CompletionResultType]::ParameterName, 'Scale to divide the values by after that: one number, or one per channel')
            [CompletionResult]::new('--model-version', '--model-version', [CompletionResultType]::ParameterName, 'Version of the model [default: the server''s choice]')
            [CompletionResult]::new('--output-name', '--output-name', [CompletionResultType]::ParameterName, 'Request only this output')
            [CompletionResult]::new('--id', '--id', [CompletionResultType]::ParameterName, 'Request id, which the response repeats (KServe only)')
            [CompletionResult]::new('--param', '--param', [CompletionResultType]::ParameterName, 'Send a request parameter')
            [CompletionResult]::new('--parameter', '--parameter', [CompletionResultType]::ParameterName, 'Send a request parameter')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--save', '--save', [CompletionResultType]::ParameterName, 'Save each output as a .npy file in this folder')
            [CompletionResult]::new('--top', '--top', [CompletionResultType]::ParameterName, 'Show the K highest scores of the last axis of the output')
            [CompletionResult]::new('--labels', '--labels', [CompletionResultType]::ParameterName, 'File with the label of each score, one per line')
            [CompletionResult]::new('--axis', '--axis', [CompletionResultType]::ParameterName, 'Cut the inputs along this axis, counted from 0 [default: 0]')
            [CompletionResult]::new('--sequence-id', '--sequence-id', [CompletionResultType]::ParameterName, 'Id of the sequence [default: a random one]')
            [CompletionResult]::new('--requests', '--requests', [CompletionResultType]::ParameterName, 'File with one request per line; - is standard input')
            [CompletionResult]::new('--timestamp', '--timestamp', [CompletionResultType]::ParameterName, 'Timestamp of the first request; the next ones have N + 1, N + 2, …')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'Send the request N times and measure latencies')
            [CompletionResult]::new('--duration', '--duration', [CompletionResultType]::ParameterName, 'Send the request repeatedly for this long, such as 10s, and measure latencies')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Number of concurrent requests [default: 1]')
            [CompletionResult]::new('--warmup', '--warmup', [CompletionResultType]::ParameterName, 'Number of warm-up requests, which are not measured')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'Address of the server [default: localhost:9000, or localhost:8000 over REST]')
            [CompletionResult]::new('--api', '--api', [CompletionResultType]::ParameterName, 'Protocol to use')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Timeout of the connection and of each request')
            [CompletionResult]::new('--header', '--header', [CompletionResultType]::ParameterName, 'HTTP header or gRPC metadata to send with each request')
            [CompletionResult]::new('--status', '--status', [CompletionResultType]::ParameterName, 'Show the versions of the model and their states')
            [CompletionResult]::new('--metadata', '--metadata', [CompletionResultType]::ParameterName, 'Show the inputs and outputs of the model')
            [CompletionResult]::new('--print-curl', '--print-curl', [CompletionResultType]::ParameterName, 'Print the request as a curl command (grpcurl over gRPC) instead of sending it')
            [CompletionResult]::new('--show-secrets', '--show-secrets', [CompletionResultType]::ParameterName, 'Show credentials in the output of --print-curl')
            [CompletionResult]::new('--zeros', '--zeros', [CompletionResultType]::ParameterName, 'Fill all other inputs with zeros')
            [CompletionResult]::new('--random', '--random', [CompletionResultType]::ParameterName, 'Fill all other inputs with random values')
            [CompletionResult]::new('--bgr', '--bgr', [CompletionResultType]::ParameterName, 'Send channels as BGR; means and scales follow this order')
            [CompletionResult]::new('--raw', '--raw', [CompletionResultType]::ParameterName, 'Send tensors as raw bytes over gRPC (default)')
            [CompletionResult]::new('--typed', '--typed', [CompletionResultType]::ParameterName, 'Send tensors in typed fields over gRPC')
            [CompletionResult]::new('--binary', '--binary', [CompletionResultType]::ParameterName, 'Send and ask for tensors as bytes over kserve-rest (default)')
            [CompletionResult]::new('--json-data', '--json-data', [CompletionResultType]::ParameterName, 'Send and ask for tensors as JSON over REST (over tfs-rest always so)')
            [CompletionResult]::new('--sequence', '--sequence', [CompletionResultType]::ParameterName, 'Send the inputs step by step as one sequence: start, steps, end')
            [CompletionResult]::new('--each', '--each', [CompletionResultType]::ParameterName, 'Show the outputs of each step as they come, a line for each step')
            [CompletionResult]::new('--start', '--start', [CompletionResultType]::ParameterName, 'Send one request that starts a sequence')
            [CompletionResult]::new('--continue', '--continue', [CompletionResultType]::ParameterName, 'Send one request of a sequence that was started')
            [CompletionResult]::new('--end', '--end', [CompletionResultType]::ParameterName, 'Send the last request of a sequence')
            [CompletionResult]::new('--stream', '--stream', [CompletionResultType]::ParameterName, 'Send requests over one stream, and show responses as they arrive')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;pipeline' {
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a configuration file with a pipeline, or the skeleton of a custom node')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Draw a pipeline of a configuration file')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Find all errors of the pipelines of a configuration file')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a pipeline once, in this process, and tell where the time goes')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;pipeline;new' {
            [CompletionResult]::new('--custom-node', '--custom-node', [CompletionResultType]::ParameterName, 'Write a custom node in C++ that works, into the folder DIR, or NAME if none is given')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Replace files that are there')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('chain', 'chain', [CompletionResultType]::ParameterValue, 'Connect models one after the other')
            [CompletionResult]::new('demultiplexer', 'demultiplexer', [CompletionResultType]::ParameterValue, 'Run models for each part of a tensor')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;pipeline;new;chain' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write to this file; - is standard output')
            [CompletionResult]::new('--out', '--out', [CompletionResultType]::ParameterName, 'Write to this file; - is standard output')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Replace files that are there')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;pipeline;new;demultiplexer' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write to this file; - is standard output')
            [CompletionResult]::new('--out', '--out', [CompletionResultType]::ParameterName, 'Write to this file; - is standard output')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Replace files that are there')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;pipeline;new;help' {
            [CompletionResult]::new('chain', 'chain', [CompletionResultType]::ParameterValue, 'Connect models one after the other')
            [CompletionResult]::new('demultiplexer', 'demultiplexer', [CompletionResultType]::ParameterValue, 'Run models for each part of a tensor')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;pipeline;new;help;chain' {
            break
        }
        'ovms;pipeline;new;help;demultiplexer' {
            break
        }
        'ovms;pipeline;new;help;help' {
            break
        }
        'ovms;pipeline;show' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Choose what to draw')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Choose what to draw')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write to this file; - is standard output')
            [CompletionResult]::new('--out', '--out', [CompletionResultType]::ParameterName, 'Write to this file; - is standard output')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Draw with the characters of ASCII only')
            [CompletionResult]::new('--no-custom-nodes', '--no-custom-nodes', [CompletionResultType]::ParameterName, 'Do not open the libraries of custom nodes')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;pipeline;check' {
            [CompletionResult]::new('--cpu_extension', '--cpu_extension', [CompletionResultType]::ParameterName, 'Shared library with custom operations for the CPU')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--no-custom-nodes', '--no-custom-nodes', [CompletionResultType]::ParameterName, 'Do not open the libraries of custom nodes')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;pipeline;run' {
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Input value: JSON, @FILE, or - for standard input')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'Input value: JSON, @FILE, or - for standard input')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the random values')
            [CompletionResult]::new('--layout', '--layout', [CompletionResultType]::ParameterName, 'Layout of images: NCHW, NHWC, CHW or HWC')
            [CompletionResult]::new('--mean', '--mean', [CompletionResultType]::ParameterName, 'Mean to subtract from the values, which are 0 to 255: one number, or one per channel')
            [CompletionResult]::new('--scale', '--scale', [CompletionResultType]::ParameterName, 'Scale to divide the values by after that: one number, or one per channel')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'Send the request N times and measure latencies')
            [CompletionResult]::new('--warmup', '--warmup', [CompletionResultType]::ParameterName, 'Number of warm-up requests, which are not measured')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--save-intermediate', '--save-intermediate', [CompletionResultType]::ParameterName, 'Save the inputs and outputs of every run as .npy files in this folder')
            [CompletionResult]::new('--zeros', '--zeros', [CompletionResultType]::ParameterName, 'Fill all other inputs with zeros')
            [CompletionResult]::new('--random', '--random', [CompletionResultType]::ParameterName, 'Fill all other inputs with random values')
            [CompletionResult]::new('--bgr', '--bgr', [CompletionResultType]::ParameterName, 'Send channels as BGR; means and scales follow this order')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Show the runs for every part of a demultiplexed level, not only the first few')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;pipeline;help' {
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a configuration file with a pipeline, or the skeleton of a custom node')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Draw a pipeline of a configuration file')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Find all errors of the pipelines of a configuration file')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a pipeline once, in this process, and tell where the time goes')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;pipeline;help;new' {
            [CompletionResult]::new('chain', 'chain', [CompletionResultType]::ParameterValue, 'Connect models one after the other')
            [CompletionResult]::new('demultiplexer', 'demultiplexer', [CompletionResultType]::ParameterValue, 'Run models for each part of a tensor')
            break
        }
        'ovms;pipeline;help;new;chain' {
            break
        }
        'ovms;pipeline;help;new;demultiplexer' {
            break
        }
        'ovms;pipeline;help;show' {
            break
        }
        'ovms;pipeline;help;check' {
            break
        }
        'ovms;pipeline;help;run' {
            break
        }
        'ovms;pipeline;help;help' {
            break
        }
        'ovms;graph' {
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a graph with Python nodes that works, with a test and a README')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Draw a graph')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Find all errors of a graph and of its Python handlers')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a graph once, in this process, and show each packet')
            [CompletionResult]::new('stubs', 'stubs', [CompletionResultType]::ParameterValue, 'Install the module `pyovms` for tests and editors into a virtual environment')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;graph;new' {
            [CompletionResult]::new('--nodes', '--nodes', [CompletionResultType]::ParameterName, 'Make these Python nodes, one after the other')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Put a model between two Python nodes: a name of the configuration file, or a model''s folder')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Name an input, with type and shape if they are known')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'Name an input, with type and shape if they are known')
            [CompletionResult]::new('--output-name', '--output-name', [CompletionResultType]::ParameterName, 'Name an output, with type and shape if they are known')
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Folder to write to [default: NAME]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Add the graph to this configuration file, instead of one in its folder')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--generative', '--generative', [CompletionResultType]::ParameterName, 'Make the last Python node a generator')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Replace files that are there')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;graph;show' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Choose what to draw')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Choose what to draw')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write to this file; - is standard output')
            [CompletionResult]::new('--out', '--out', [CompletionResultType]::ParameterName, 'Write to this file; - is standard output')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Draw with the characters of ASCII only')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;graph;check' {
            [CompletionResult]::new('--python_environment', '--python_environment', [CompletionResultType]::ParameterName, 'Virtual environment with the packages of Python nodes [default: the active one]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--no-python', '--no-python', [CompletionResultType]::ParameterName, 'Do not import handlers')
            [CompletionResult]::new('--initialize', '--initialize', [CompletionResultType]::ParameterName, 'Make the objects of handlers, as the server does')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;graph;run' {
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Input value: JSON, @FILE, or - for standard input')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'Input value: JSON, @FILE, or - for standard input')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the random values')
            [CompletionResult]::new('--layout', '--layout', [CompletionResultType]::ParameterName, 'Layout of images: NCHW, NHWC, CHW or HWC')
            [CompletionResult]::new('--mean', '--mean', [CompletionResultType]::ParameterName, 'Mean to subtract from the values, which are 0 to 255: one number, or one per channel')
            [CompletionResult]::new('--scale', '--scale', [CompletionResultType]::ParameterName, 'Scale to divide the values by after that: one number, or one per channel')
            [CompletionResult]::new('--requests', '--requests', [CompletionResultType]::ParameterName, 'File with one request per line; - is standard input')
            [CompletionResult]::new('--timestamp', '--timestamp', [CompletionResultType]::ParameterName, 'Timestamp of the first request; the next ones have N + 1, N + 2, …')
            [CompletionResult]::new('--param', '--param', [CompletionResultType]::ParameterName, 'Send a request parameter')
            [CompletionResult]::new('--parameter', '--parameter', [CompletionResultType]::ParameterName, 'Send a request parameter')
            [CompletionResult]::new('--python_environment', '--python_environment', [CompletionResultType]::ParameterName, 'Virtual environment with the packages of Python nodes [default: the active one]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--zeros', '--zeros', [CompletionResultType]::ParameterName, 'Fill all other inputs with zeros')
            [CompletionResult]::new('--random', '--random', [CompletionResultType]::ParameterName, 'Fill all other inputs with random values')
            [CompletionResult]::new('--bgr', '--bgr', [CompletionResultType]::ParameterName, 'Send channels as BGR; means and scales follow this order')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;graph;stubs' {
            [CompletionResult]::new('--into', '--into', [CompletionResultType]::ParameterName, 'Virtual environment, or a folder of modules')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;graph;help' {
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a graph with Python nodes that works, with a test and a README')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Draw a graph')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Find all errors of a graph and of its Python handlers')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a graph once, in this process, and show each packet')
            [CompletionResult]::new('stubs', 'stubs', [CompletionResultType]::ParameterValue, 'Install the module `pyovms` for tests and editors into a virtual environment')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;graph;help;new' {
            break
        }
        'ovms;graph;help;show' {
            break
        }
        'ovms;graph;help;check' {
            break
        }
        'ovms;graph;help;run' {
            break
        }
        'ovms;graph;help;stubs' {
            break
        }
        'ovms;graph;help;help' {
            break
        }
        'ovms;setup' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Folder for the virtual environment with the runtime')
            [CompletionResult]::new('--python', '--python', [CompletionResultType]::ParameterName, 'Python to make the virtual environment with, 3.11 or newer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;doctor' {
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'Port for gRPC to look at')
            [CompletionResult]::new('--rest_port', '--rest_port', [CompletionResultType]::ParameterName, 'Port for REST to look at')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;completions' {
            [CompletionResult]::new('--install', '--install', [CompletionResultType]::ParameterName, 'Write the script to where the shell looks for it, and say what is left to do')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;man' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Write all pages to this folder')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Suppress progress and informational messages')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;help' {
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve models, pipelines and graphs over gRPC and REST')
            [CompletionResult]::new('infer', 'infer', [CompletionResultType]::ParameterValue, 'Send inference requests to a server, or ask what it serves')
            [CompletionResult]::new('pipeline', 'pipeline', [CompletionResultType]::ParameterValue, 'Write, draw, check and try pipelines')
            [CompletionResult]::new('graph', 'graph', [CompletionResultType]::ParameterValue, 'Write, draw, check and try graphs with Python nodes')
            [CompletionResult]::new('setup', 'setup', [CompletionResultType]::ParameterValue, 'Find or install the OpenVINO runtime')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Diagnose the installation')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a shell''s completion script, or install it')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Show a page of the manual, or write all of them')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;help;serve' {
            break
        }
        'ovms;help;infer' {
            break
        }
        'ovms;help;pipeline' {
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a configuration file with a pipeline, or the skeleton of a custom node')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Draw a pipeline of a configuration file')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Find all errors of the pipelines of a configuration file')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a pipeline once, in this process, and tell where the time goes')
            break
        }
        'ovms;help;pipeline;new' {
            [CompletionResult]::new('chain', 'chain', [CompletionResultType]::ParameterValue, 'Connect models one after the other')
            [CompletionResult]::new('demultiplexer', 'demultiplexer', [CompletionResultType]::ParameterValue, 'Run models for each part of a tensor')
            break
        }
        'ovms;help;pipeline;new;chain' {
            break
        }
        'ovms;help;pipeline;new;demultiplexer' {
            break
        }
        'ovms;help;pipeline;show' {
            break
        }
        'ovms;help;pipeline;check' {
            break
        }
        'ovms;help;pipeline;run' {
            break
        }
        'ovms;help;graph' {
            [CompletionResult]::new('new', 'new', [CompletionResultType]::ParameterValue, 'Write a graph with Python nodes that works, with a test and a README')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Draw a graph')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Find all errors of a graph and of its Python handlers')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a graph once, in this process, and show each packet')
            [CompletionResult]::new('stubs', 'stubs', [CompletionResultType]::ParameterValue, 'Install the module `pyovms` for tests and editors into a virtual environment')
            break
        }
        'ovms;help;graph;new' {
            break
        }
        'ovms;help;graph;show' {
            break
        }
        'ovms;help;graph;check' {
            break
        }
        'ovms;help;graph;run' {
            break
        }
        'ovms;help;graph;stubs' {
            break
        }
        'ovms;help;setup' {
            break
        }
        'ovms;help;doctor' {
            break
        }
        'ovms;help;completions' {
            break
        }
        'ovms;help;man' {
            break
        }
        'ovms;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
