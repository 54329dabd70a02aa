// Package skill reads skill folders.
//
// A skill is a directory, loaded in three levels so that nothing is read
// before it is wanted:
//
//  1. skill.yaml says what the skill is and can do; it is read when the
//     agent starts and whenever it changes ([Parse], [Library.Scan]).
//  2. SKILL.md explains it to people and models; it is read on demand
//     ([Skill.Read]).
//  3. scripts/ and resources/ are touched when a capability is run
//     ([Skill.Script]) or a resource is asked for ([Skill.Read]).
//
// Everything is read through an [os.Root]: no name and no symbolic link
// leads out of the skill's own folder.
package skill
