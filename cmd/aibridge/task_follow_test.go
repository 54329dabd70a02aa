package main

import "testing"

func TestATaskIsFollowedUntilItHasEnded(t *testing.T) {
	for state, over := range map[string]bool{
		"pending": false, "waiting": false, "running": false, "paused": false, "aborted": false,
		"succeeded": true, "complete": true, "partial": true, "failed": true, "cancelled": true,
	} {
		if task := (&followedTask{State: state}); task.over() != over {
			t.Errorf("that %s is the end is %v", state, task.over())
		}
	}
}
