# What to offer is asked of `ovms`, which gets the words without their quotes.
Register-ArgumentCompleter -Native -CommandName ovms -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $before = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition })
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object {
        if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { $_.Extent.Text }
    })
    $env:COMPLETE = 'powershell'
    # An empty word is not passed on.
    $env:_CLAP_COMPLETE_INDEX = $before.Count
    try {
        & ovms -- $words 2>$null | ForEach-Object {
            $word, $about = $_ -split "`t", 2
            if ($word -notmatch '^[\w./:=@-]+$') {
                # All of these end what an apostrophe begins.
                $word = "'" + ($word -replace "(['\u2018-\u201b])", '$1$1') + "'"
            }
            if ([string]::IsNullOrEmpty($about)) { $about = $word }
            [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $about)
        }
    } finally {
        Remove-Item Env:COMPLETE, Env:_CLAP_COMPLETE_INDEX
    }
}
