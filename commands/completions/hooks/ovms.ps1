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

