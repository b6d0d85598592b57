package controlplane

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// hostOf returns a reconciler on a host that has some objects, and a client of the host. The cache
// of the reconciler is behind: it has nothing.
func hostOf(t *testing.T, objects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	host := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &Reconciler{Client: behind{host}, Live: host, Events: events.NewFakeRecorder(10)}, host
}

// behind reads from a cache that has nothing yet.
type behind struct{ client.Client }

func (behind) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
}

// keysOf makes the keys of a ControlPlane, and returns the Secrets and the authority of servers.
func keysOf(t *testing.T, cp *v1alpha1.ControlPlane) (authorities, keys *corev1.Secret, certificate string) {
	t.Helper()
	r, host := hostOf(t)
	w := &work{cp: cp}
	if err := r.ensureKeys(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	authorities, keys = &corev1.Secret{}, &corev1.Secret{}
	for name, into := range map[string]*corev1.Secret{authoritiesName(cp): authorities, keysName(cp): keys} {
		if err := host.Get(t.Context(), types.NamespacedName{Namespace: cp.Namespace, Name: name}, into); err != nil {
			t.Fatal(err)
		}
		into.ResourceVersion = ""
	}
	return authorities, keys, string(w.authorities.server.PEM())
}

// TestKeysAreMade checks what is in which Secret: the authority of system users is in no server.
func TestKeysAreMade(t *testing.T) {
	authorities, keys, _ := keysOf(t, named())
	for secret, want := range map[*corev1.Secret][]string{
		authorities: {"front-proxy-ca.crt", "front-proxy-ca.key", "identity", "server-ca.crt", "server-ca.key", "system-ca.crt", "system-ca.key"},
		keys:        {"client-ca.crt", "client-ca.key", "service-account.key"},
	} {
		var got []string
		for name := range secret.Data {
			got = append(got, name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", secret.Name, diff)
		}
		if secret.Immutable == nil || !*secret.Immutable || len(secret.OwnerReferences) > 0 {
			t.Errorf("%s can be changed, or goes with the ControlPlane: %+v", secret.Name, secret.ObjectMeta)
		}
	}
}

// TestKeysAreMadeOnce checks that keys that are there are used, and that keys that were there are
// never made again.
func TestKeysAreMadeOnce(t *testing.T) {
	authorities, keys, certificate := keysOf(t, named())
	others, _, _ := keysOf(t, named())
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: authorities.Name}}
	spoilt := keys.DeepCopy()
	spoilt.Data["service-account.key"] = []byte("spoilt")
	for name, tc := range map[string]struct {
		// had is the authority that the status says.
		had    string
		host   []client.Object
		reason string
	}{
		"new":                                       {},
		"there, with a volume of before":            {host: []client.Object{authorities, keys}},
		"as before":                                 {had: certificate, host: []client.Object{authorities, keys}},
		"one Secret was made before an error":       {host: []client.Object{authorities}},
		"the authorities are lost":                  {had: certificate, host: []client.Object{keys}, reason: v1alpha1.ReasonKeysMissing},
		"the keys are lost":                         {had: certificate, host: []client.Object{authorities}, reason: v1alpha1.ReasonKeysMissing},
		"other authorities":                         {had: certificate, host: []client.Object{others, keys}, reason: v1alpha1.ReasonKeysInvalid},
		"spoilt":                                    {had: certificate, host: []client.Object{authorities, spoilt}, reason: v1alpha1.ReasonKeysInvalid},
		"a foreign Secret of the name":              {host: []client.Object{foreign}, reason: v1alpha1.ReasonNameTaken},
		"a foreign Secret in the place of the keys": {had: certificate, host: []client.Object{foreign, keys}, reason: v1alpha1.ReasonNameTaken},
	} {
		t.Run(name, func(t *testing.T) {
			r, host := hostOf(t, tc.host...)
			w := &work{cp: named(func(cp *v1alpha1.ControlPlane) { cp.Status.CertificateAuthority = tc.had })}
			err := r.ensureKeys(t.Context(), w)
			if reasonOf(err) != tc.reason || tc.reason == "" && err != nil {
				t.Errorf("error %v, want the reason %q", err, tc.reason)
			}
			if known := w.authorities != nil; known != (tc.reason == "") {
				t.Errorf("the status would say that there are keys: %v", known)
			}
			for _, before := range tc.host {
				after := &corev1.Secret{}
				if err := host.Get(t.Context(), client.ObjectKeyFromObject(before), after); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before.(*corev1.Secret).Data, after.Data); diff != "" {
					t.Errorf("%s has changed", before.GetName())
				}
			}
			all := &corev1.SecretList{}
			if err := host.List(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			if tc.had != "" && len(all.Items) != len(tc.host) {
				t.Errorf("%d Secrets, of %d before", len(all.Items), len(tc.host))
			}
		})
	}
}
