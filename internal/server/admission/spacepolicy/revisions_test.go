package spacepolicy

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/apps"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestRevisions(t *testing.T) {
	const (
		made = `{"spec":{"template":{"$patch":"replace","spec":{}}}}`
		more = `{"spec":{"template":{"$patch":"replace"},"selector":null}}`
	)
	controller := &user.DefaultInfo{Name: user.APIServerUser, Extra: map[string][]string{tenant.UserExtraKey: {tenant.System.String()}}}
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		space     tenant.Name
		user      user.Info
		operation admission.Operation
		data      string
		want      string
	}{
		"a controller creates one":                     {space: "a", user: controller, operation: admission.Create, data: made},
		"a user creates one":                           {space: "a", user: member, operation: admission.Create, data: made, want: foreignRevision},
		"a user creates one with more":                 {space: "a", user: member, operation: admission.Create, data: more, want: foreignRevision},
		"a user changes one":                           {space: "a", user: member, operation: admission.Update, data: more},
		"a user creates one in the system space":       {space: tenant.System, user: controller, operation: admission.Create, data: more},
		"a controller creates one that a webhook adds": {space: "a", user: controller, operation: admission.Create, data: more, want: otherRevision},
	} {
		t.Run(name, func(t *testing.T) {
			revision := &apps.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(tc.data)}}
			a := admission.NewAttributesRecord(revision, nil, schema.GroupVersionKind{}, "ns", "x",
				apps.Resource("controllerrevisions").WithVersion("v1"), "", tc.operation, nil, false, tc.user)
			want := ""
			if tc.want != "" {
				want = `controllerrevisions.apps "x" is forbidden: SpacePolicy: ` + tc.want
			}
			got := ""
			if err := plugin.Admit(tenant.WithSpace(t.Context(), tc.space), a, nil); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestReplacesTemplate(t *testing.T) {
	for data, want := range map[string]bool{
		`{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":[]}}}}`: true,
		`{"spec":{"template":{"metadata":{}}}}`:                                             false,
		`{"spec":{"template":{"$patch":"delete"}}}`:                                         false,
		`{"spec":{"template":null}}`:                                                        false,
		`{"spec":{"template":{"$patch":"replace"},"selector":null}}`:                        false,
		`{"spec":{"template":{"$patch":"replace"},"$patch":{}}}`:                            false,
		`{"spec":{"template":{"$patch":"replace"}},"metadata":{}}`:                          false,
		`{"spec":{"template":{"$patch":"replace"}},"$patch":"delete"}`:                      false,
		`{"spec":null}`: false,
		`{}`:            false,
		`[]`:            false,
		``:              false,
	} {
		if got := ReplacesTemplate([]byte(data)); got != want {
			t.Errorf("%s: %v", data, got)
		}
	}
}
