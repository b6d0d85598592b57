package spacepolicy

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/apps"
)

const (
	foreignRevision = "in a space, ControllerRevisions are made by the controllers of StatefulSets and DaemonSets alone, which make them anew; " +
		"leave them out of what is restored or installed"
	otherRevision = "a ControllerRevision in a space replaces spec.template and nothing else"
)

// checkRevisionUser refuses new ControllerRevisions of users: a controller applies them to
// its objects without validation. Their data cannot be changed.
func checkRevisionUser(a admission.Attributes) error {
	if _, ok := a.GetObject().(*apps.ControllerRevision); !ok || a.GetOperation() != admission.Create {
		return nil
	}
	return checkByPlatform(a, foreignRevision)
}

// checkRevision refuses new ControllerRevisions that are not what a controller makes, with
// what webhooks and policies of the tenant have changed.
func checkRevision(a admission.Attributes) error {
	revision, ok := a.GetObject().(*apps.ControllerRevision)
	if ok && a.GetOperation() == admission.Create && !ReplacesTemplate(revision.Data.Raw) {
		return forbidden(a, otherRevision)
	}
	return nil
}

// ReplacesTemplate reports whether the data of a ControllerRevision replaces the template of
// pods and nothing else.
func ReplacesTemplate(data []byte) bool {
	var patch map[string]map[string]map[string]any
	if json.Unmarshal(data, &patch) != nil {
		return false
	}
	return slices.Equal(slices.Collect(maps.Keys(patch)), []string{"spec"}) &&
		slices.Equal(slices.Collect(maps.Keys(patch["spec"])), []string{"template"}) &&
		patch["spec"]["template"]["$patch"] == "replace"
}
