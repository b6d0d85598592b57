package controlplane

import (
	"context"
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// hostOf returns a reconciler on a host that has some objects, and a client of the host. The cache
// of the reconciler is behind: it has nothing.
func hostOf(t *testing.T, objects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddHostToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	host := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ControlPlane{}).WithObjects(objects...).Build()
	return &Reconciler{Client: behind{host}, Live: host, Events: events.NewFakeRecorder(10)}, host
}

// behind reads from a cache that has nothing yet.
type behind struct{ client.Client }

func (behind) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
}

// workOf returns the work of a reconcile of a ControlPlane of a host.
func workOf(t *testing.T, host client.Client, cp *v1alpha1.ControlPlane) *work {
	t.Helper()
	w := &work{cp: &v1alpha1.ControlPlane{}}
	if err := host.Get(t.Context(), client.ObjectKeyFromObject(cp), w.cp); err != nil {
		t.Fatal(err)
	}
	return w
}

// keysOf makes the keys of a ControlPlane, and returns the Secrets and the authority of servers.
func keysOf(t *testing.T, cp *v1alpha1.ControlPlane) (authorities, keys *corev1.Secret, certificate string) {
	t.Helper()
	r, host := hostOf(t, cp)
	w := workOf(t, host, cp)
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

// TestKeysAreMadeOnce checks that keys that are there are used if the operator has made them or
// somebody answers for them, and that keys that were there are never made again.
func TestKeysAreMadeOnce(t *testing.T) {
	authorities, keys, certificate := keysOf(t, named())
	others, otherKeys, _ := keysOf(t, named())
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: authorities.Name}}
	spoilt := keys.DeepCopy()
	spoilt.Data["service-account.key"] = []byte("spoilt")
	record := func(secrets ...*corev1.Secret) (all []v1alpha1.ControlPlaneKeys) {
		for _, secret := range secrets {
			all = append(all, v1alpha1.ControlPlaneKeys{SecretName: secret.Name, Digest: digestOf(secret.Data)})
		}
		return all
	}
	both := record(authorities, keys)
	unproved := keys.DeepCopy()
	unproved.Annotations = nil
	for name, tc := range map[string]struct {
		// had is the authority that the status says, and made what it says of Secrets.
		had  string
		made []v1alpha1.ControlPlaneKeys
		// adopted is the annotation of somebody who answers for Secrets.
		adopted string
		host    []client.Object
		reason  string
	}{
		"new":                                {},
		"as before":                          {had: certificate, made: both, host: []client.Object{authorities, keys}},
		"as before, and nothing is recorded": {had: certificate, host: []client.Object{authorities, keys}, reason: v1alpha1.ReasonKeysNotAdopted},
		"one Secret was made before an end":  {made: record(authorities), host: []client.Object{authorities}},
		"one Secret was to be made":          {made: record(authorities)},
		"both Secrets were made before that": {made: both, host: []client.Object{authorities, keys}},

		"there, with a volume of before":         {host: []client.Object{authorities, keys}, reason: v1alpha1.ReasonKeysNotAdopted},
		"there, and somebody's":                  {adopted: digestOf(others.Data), host: []client.Object{authorities, keys}, reason: v1alpha1.ReasonKeysNotAdopted},
		"the authorities are adopted":            {adopted: digestOf(authorities.Data), host: []client.Object{authorities, keys}},
		"the keys are adopted":                   {adopted: digestOf(keys.Data), host: []client.Object{authorities, keys}, reason: v1alpha1.ReasonKeysNotAdopted},
		"adopted authorities do not prove these": {adopted: digestOf(authorities.Data), host: []client.Object{authorities, unproved}, reason: v1alpha1.ReasonKeysNotAdopted},
		"nor those of others":                    {adopted: digestOf(authorities.Data), host: []client.Object{authorities, otherKeys}, reason: v1alpha1.ReasonKeysNotAdopted},
		"proved, and not those that are recorded": {had: certificate, made: record(authorities, otherKeys), host: []client.Object{authorities, keys},
			reason: v1alpha1.ReasonKeysInvalid},
		"both are adopted":                {adopted: digestOf(authorities.Data) + "," + digestOf(keys.Data), host: []client.Object{authorities, unproved}},
		"planted beside those just made":  {made: record(authorities), host: []client.Object{authorities, otherKeys}, reason: v1alpha1.ReasonKeysNotAdopted},
		"planted where one was to be":     {made: record(authorities), host: []client.Object{others}, reason: v1alpha1.ReasonKeysNotAdopted},
		"an empty annotation adopts none": {adopted: ",", host: []client.Object{authorities}, reason: v1alpha1.ReasonKeysNotAdopted},
		"planted where keys were lost":    {had: certificate, made: both, host: []client.Object{authorities, otherKeys}, reason: v1alpha1.ReasonKeysInvalid},
		"that is what somebody wants": {had: certificate, made: both, adopted: digestOf(otherKeys.Data),
			host: []client.Object{authorities, otherKeys}},

		"the authorities are lost": {had: certificate, made: both, host: []client.Object{keys}, reason: v1alpha1.ReasonKeysMissing},
		"the keys are lost":        {had: certificate, made: both, host: []client.Object{authorities}, reason: v1alpha1.ReasonKeysMissing},
		"other authorities":        {had: certificate, made: record(others, keys), host: []client.Object{others, keys}, reason: v1alpha1.ReasonKeysInvalid},
		"other authorities, adopted": {had: certificate, made: both, adopted: digestOf(others.Data), host: []client.Object{others, keys},
			reason: v1alpha1.ReasonKeysInvalid},
		"spoilt":                       {had: certificate, made: record(authorities, spoilt), host: []client.Object{authorities, spoilt}, reason: v1alpha1.ReasonKeysInvalid},
		"a foreign Secret of the name": {host: []client.Object{foreign}, reason: v1alpha1.ReasonNameTaken},
		"a foreign Secret in the place of the keys": {had: certificate, host: []client.Object{foreign, keys}, reason: v1alpha1.ReasonNameTaken},
	} {
		t.Run(name, func(t *testing.T) {
			cp := named(func(cp *v1alpha1.ControlPlane) {
				cp.Status.CertificateAuthority, cp.Status.Keys = tc.had, tc.made
				if tc.adopted != "" {
					cp.Annotations = map[string]string{v1alpha1.AdoptKeysAnnotation: tc.adopted}
				}
			})
			r, host := hostOf(t, append(slices.Clone(tc.host), cp)...)
			w := workOf(t, host, cp)
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

// TestKeysAreRecordedFirst checks that no Secret is made that the status does not know: after an
// end in between, it could not be told from somebody else's.
func TestKeysAreRecordedFirst(t *testing.T) {
	cp := named()
	r, host := hostOf(t, cp)
	r.Client = interceptor.NewClient(host.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errRead
		},
	})
	if err := r.ensureKeys(t.Context(), workOf(t, host, cp)); !errors.Is(err, errRead) {
		t.Errorf("got error %v", err)
	}
	all := &corev1.SecretList{}
	if err := host.List(t.Context(), all); err != nil || len(all.Items) > 0 {
		t.Errorf("%d Secrets were made, or error %v", len(all.Items), err)
	}
}

// TestDigest checks that a digest is one of names and contents.
func TestDigest(t *testing.T) {
	seen := map[string]int{}
	for i, data := range []map[string][]byte{
		nil, {"a": nil}, {"a": []byte("b")}, {"ab": nil}, {"a": nil, "b": nil}, {"a": []byte("b"), "c": nil}, {"a": nil, "b": []byte("c")},
	} {
		if before, is := seen[digestOf(data)]; is {
			t.Errorf("%d and %d have one digest", before, i)
		}
		seen[digestOf(data)] = i
	}
}
