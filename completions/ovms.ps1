
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'ovms' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

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
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a model over gRPC and REST')
            [CompletionResult]::new('infer', 'infer', [CompletionResultType]::ParameterValue, 'Send inference requests to a server')
            [CompletionResult]::new('setup', 'setup', [CompletionResultType]::ParameterValue, 'Find or install the OpenVINO runtime')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a completion script for a shell')
            [CompletionResult]::new('probe-runtime', 'probe-runtime', [CompletionResultType]::ParameterValue, 'Open one runtime and say its version; run by `setup` in a process of its own')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;serve' {
            [CompletionResult]::new('--model_name', '--model_name', [CompletionResultType]::ParameterName, 'Name that clients use for the model')
            [CompletionResult]::new('--model_path', '--model_path', [CompletionResultType]::ParameterName, 'Folder with the model''s version folders')
            [CompletionResult]::new('--demo', '--demo', [CompletionResultType]::ParameterName, 'Serve the built-in example, a classifier of drawn shapes')
            [CompletionResult]::new('--nireq', '--nireq', [CompletionResultType]::ParameterName, 'Number of infer requests, which is how many inferences run at once; 0 lets the device choose')
            [CompletionResult]::new('--target_device', '--target_device', [CompletionResultType]::ParameterName, 'Device to run on, such as CPU, GPU, AUTO')
            [CompletionResult]::new('--plugin_config', '--plugin_config', [CompletionResultType]::ParameterName, 'Device properties as a JSON object, such as ''{"NUM_STREAMS":2}''')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'Port for gRPC; 0 means no gRPC')
            [CompletionResult]::new('--rest_port', '--rest_port', [CompletionResultType]::ParameterName, 'Port for REST; 0 means no REST')
            [CompletionResult]::new('--grpc_bind_address', '--grpc_bind_address', [CompletionResultType]::ParameterName, 'Addresses or host names for gRPC, separated by commas')
            [CompletionResult]::new('--rest_bind_address', '--rest_bind_address', [CompletionResultType]::ParameterName, 'Addresses or host names for REST, separated by commas')
            [CompletionResult]::new('--log_level', '--log_level', [CompletionResultType]::ParameterName, 'Least important messages to log: TRACE, DEBUG, INFO, WARNING, ERROR')
            [CompletionResult]::new('--log_path', '--log_path', [CompletionResultType]::ParameterName, 'File to log to, besides stdout')
            [CompletionResult]::new('--max_message_size', '--max_message_size', [CompletionResultType]::ParameterName, 'Largest message or body in bytes, as sent and as expanded')
            [CompletionResult]::new('--max_connections', '--max_connections', [CompletionResultType]::ParameterName, 'Connections open at once on each port; more wait to be accepted')
            [CompletionResult]::new('--max_queued_requests', '--max_queued_requests', [CompletionResultType]::ParameterName, 'Requests of a model that may wait for an infer request; more are refused (UNAVAILABLE, 503)')
            [CompletionResult]::new('--read_timeout_seconds', '--read_timeout_seconds', [CompletionResultType]::ParameterName, 'Longest pause within a request that is being received')
            [CompletionResult]::new('--loading_wait_seconds', '--loading_wait_seconds', [CompletionResultType]::ParameterName, 'How long a request waits for a version that is loading')
            [CompletionResult]::new('--shutdown_timeout_seconds', '--shutdown_timeout_seconds', [CompletionResultType]::ParameterName, 'How long requests under way may take after SIGINT or SIGTERM; a second signal ends at once')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;infer' {
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Give an input: JSON, @FILE, or - for standard input')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'Give an input: JSON, @FILE, or - for standard input')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Make the random values the same each time')
            [CompletionResult]::new('--layout', '--layout', [CompletionResultType]::ParameterName, 'Lay pictures out as NCHW, NHWC, CHW or HWC')
            [CompletionResult]::new('--mean', '--mean', [CompletionResultType]::ParameterName, 'Subtract this from the values, which are 0 to 255: one number, or one for each channel')
            [CompletionResult]::new('--scale', '--scale', [CompletionResultType]::ParameterName, 'Divide the values by this after that: one number, or one for each channel')
            [CompletionResult]::new('--model-version', '--model-version', [CompletionResultType]::ParameterName, 'Ask for a version of the model, not the server''s default')
            [CompletionResult]::new('--output-name', '--output-name', [CompletionResultType]::ParameterName, 'Ask for this output only')
            [CompletionResult]::new('--id', '--id', [CompletionResultType]::ParameterName, 'Send an id, which the answer repeats')
            [CompletionResult]::new('--param', '--param', [CompletionResultType]::ParameterName, 'Send a request parameter')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Choose what goes to stdout')
            [CompletionResult]::new('--save', '--save', [CompletionResultType]::ParameterName, 'Save each output as a .npy file in this folder')
            [CompletionResult]::new('--top', '--top', [CompletionResultType]::ParameterName, 'Show the K greatest scores of the last axis of the output')
            [CompletionResult]::new('--labels', '--labels', [CompletionResultType]::ParameterName, 'Name the scores after the lines of this file')
            [CompletionResult]::new('--repeat', '--repeat', [CompletionResultType]::ParameterName, 'Send the request N times and measure')
            [CompletionResult]::new('--duration', '--duration', [CompletionResultType]::ParameterName, 'Send the request for this long and measure, such as 10s')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Keep this many requests under way at once [default: 1]')
            [CompletionResult]::new('--warmup', '--warmup', [CompletionResultType]::ParameterName, 'Send N requests before, not measured')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'Address of the server [default: localhost:9000, or localhost:8000 with kserve-rest]')
            [CompletionResult]::new('--api', '--api', [CompletionResultType]::ParameterName, 'Choose the protocol')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Give up on the connection, and on each request, after this long')
            [CompletionResult]::new('--header', '--header', [CompletionResultType]::ParameterName, 'Send an HTTP header, or gRPC metadata, with every request')
            [CompletionResult]::new('--zeros', '--zeros', [CompletionResultType]::ParameterName, 'Fill the inputs not given with zeros')
            [CompletionResult]::new('--random', '--random', [CompletionResultType]::ParameterName, 'Fill the inputs not given with random values')
            [CompletionResult]::new('--bgr', '--bgr', [CompletionResultType]::ParameterName, 'Send blue first and red last; means and scales follow this order')
            [CompletionResult]::new('--raw', '--raw', [CompletionResultType]::ParameterName, 'Send tensors as raw bytes over gRPC (default)')
            [CompletionResult]::new('--typed', '--typed', [CompletionResultType]::ParameterName, 'Send tensors in typed fields over gRPC')
            [CompletionResult]::new('--binary', '--binary', [CompletionResultType]::ParameterName, 'Send and ask for tensors as bytes over REST (default)')
            [CompletionResult]::new('--json-data', '--json-data', [CompletionResultType]::ParameterName, 'Send and ask for tensors as JSON over REST')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;setup' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Folder for the virtual environment with the runtime')
            [CompletionResult]::new('--python', '--python', [CompletionResultType]::ParameterName, 'Python to make the virtual environment with, 3.11 or newer')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;completions' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;probe-runtime' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'ovms;help' {
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a model over gRPC and REST')
            [CompletionResult]::new('infer', 'infer', [CompletionResultType]::ParameterValue, 'Send inference requests to a server')
            [CompletionResult]::new('setup', 'setup', [CompletionResultType]::ParameterValue, 'Find or install the OpenVINO runtime')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a completion script for a shell')
            [CompletionResult]::new('probe-runtime', 'probe-runtime', [CompletionResultType]::ParameterValue, 'Open one runtime and say its version; run by `setup` in a process of its own')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'ovms;help;serve' {
            break
        }
        'ovms;help;infer' {
            break
        }
        'ovms;help;setup' {
            break
        }
        'ovms;help;completions' {
            break
        }
        'ovms;help;probe-runtime' {
            break
        }
        'ovms;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
