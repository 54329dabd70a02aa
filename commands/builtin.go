package commands

// Builtin returns the commands that belong to the router itself:
// batch.execute, bridge.describe, command.register and command.unregister.
// They find the router through their call.
func Builtin() []Command {
	return []Command{
		New(batchExecute, executeBatch),
		New(bridgeDescribe, describeBridge),
		New(commandRegister, registerCommand),
		New(commandUnregister, unregisterCommand),
	}
}
