package app

import "github.com/aibridge/aibridge/llm/tools"

// Tools are the tools that models may call.
func (a *App) Tools() *tools.Catalogue { return a.domains.tools.catalogue }

// ToolExecutor runs what models call.
func (a *App) ToolExecutor() *tools.Executor { return a.domains.tools.executor }
