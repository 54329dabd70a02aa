package shadow

// merge is the document that a patch makes of another (RFC 7386): members of the patch
// take the place of those of the same name, objects are merged, null removes. Neither is
// changed, and the result shares the unchanged parts.
func merge(document, patch object) object {
	merged := make(object, len(document)+len(patch))
	for name, v := range document {
		merged[name] = v
	}
	for name, wanted := range patch {
		switch wanted := wanted.(type) {
		case nil:
			delete(merged, name)
		case object:
			before, _ := merged[name].(object)
			merged[name] = merge(before, wanted)
		default:
			merged[name] = wanted
		}
	}
	return merged
}

// difference is the patch that makes the members of the reported document equal to the
// desired ones. Reported members that are not desired are not in it. Arrays are compared as a
// whole.
func difference(desired, reported object) object {
	delta := object{}
	for name, wanted := range desired {
		found, there := reported[name]
		inner, nested := wanted.(object)
		before, nestedBefore := found.(object)
		switch {
		case nested && nestedBefore:
			if d := difference(inner, before); len(d) > 0 {
				delta[name] = d
			}
		case !there || !same(wanted, found):
			delta[name] = wanted
		}
	}
	return delta
}
