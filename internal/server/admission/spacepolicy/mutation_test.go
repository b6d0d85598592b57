package spacepolicy

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
)

// TestMutations checks what webhooks and policies of a space may make of what the platform writes.
func TestMutations(t *testing.T) {
	kept := &core.Namespace{Spec: core.NamespaceSpec{Finalizers: []core.FinalizerName{core.FinalizerKubernetes}}}
	bound := func(node string) *core.Binding { return &core.Binding{Target: core.ObjectReference{Name: node}} }
	labelled := &core.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"sidecar": "yes"}}}
	for name, tc := range map[string]struct {
		sent, now runtime.Object
		// want is why it is refused, empty if it is not.
		want string
	}{
		"nothing":                     {sent: bound("n"), now: bound("n")},
		"a label":                     {sent: &core.Pod{}, now: labelled},
		"a mark that was sent":        {sent: wanting, now: &core.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: wanting.Annotations, Labels: labelled.Labels}}},
		"a mark of its own":           {sent: &core.Namespace{}, now: wanting, want: "annotations below workloads.tenantry.io/ say where an object is"},
		"no mark any more":            {sent: wanting, now: &core.Namespace{}, want: "annotations below workloads.tenantry.io/ say where an object is"},
		"a namespace that is let go":  {sent: kept, now: &core.Namespace{}, want: notEmptied},
		"a claim that is let go":      {sent: claim(finalized), now: claim(nil), want: "metadata.finalizers"},
		"a volume of another's":       {sent: claim(nil), now: claim(func(c *core.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), want: "spec.volumeName"},
		"another node":                {sent: bound("n"), now: bound("m"), want: "the host cluster finds the nodes of pods"},
		"nodes by their labels":       {sent: &core.Pod{}, now: &core.Pod{Spec: core.PodSpec{NodeSelector: map[string]string{"disk": "fast"}}}, want: "nodeSelector"},
		"nodes that the platform has": {sent: &core.Pod{Spec: core.PodSpec{NodeSelector: map[string]string{"disk": "fast"}}}, now: &core.Pod{ObjectMeta: labelled.ObjectMeta, Spec: core.PodSpec{NodeSelector: map[string]string{"disk": "fast"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := New(nil, Rules{Workloads: onHost})
			if err != nil {
				t.Fatal(err)
			}
			resource := map[bool]string{true: "pods", false: "things"}[isPod(tc.now)]
			a := admission.NewAttributesRecord(tc.now, nil, schema.GroupVersionKind{}, "ns", "x", core.Resource(resource).WithVersion("v1"), "", admission.Create, nil, false, admin)
			err = plugin.CheckMutation(a, "a", tc.sent)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if _, answer := err.(apierrors.APIStatus); err != nil && !answer { // as upstream looks at it
				t.Errorf("%v is an internal error to clients", err)
			}
		})
	}
}

func isPod(obj runtime.Object) bool {
	_, is := obj.(*core.Pod)
	return is
}
