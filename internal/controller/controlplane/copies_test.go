package controlplane

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/pki"
)

const issuers = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: []\n"

// copying is a step that copies what somebody gives.
type copying struct {
	spec  v1alpha1.ControlPlaneSpec
	given client.Object
	name  string
	key   string
	step  func(*Reconciler, context.Context, *work) error
	// missing is the reason if nothing is given.
	missing string
}

func copyings(t *testing.T) map[string]copying {
	t.Helper()
	authority, err := pki.NewAuthority("etcd")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := authority.Issue(pki.FrontProxyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	given := metav1.ObjectMeta{Namespace: "ns", Name: "given", Labels: map[string]string{ofLabel: "cp"}}
	return map[string]copying{
		"configuration": {
			spec: v1alpha1.ControlPlaneSpec{Authentication: &v1alpha1.ControlPlaneAuthentication{
				Configuration: v1alpha1.ConfigurationSource{ConfigMapName: "given"},
			}},
			given: &corev1.ConfigMap{ObjectMeta: given, Data: map[string]string{"authentication.yaml": issuers}},
			name:  "cp-configuration", key: "authentication.authentication.yaml",
			step: (*Reconciler).ensureConfiguration, missing: v1alpha1.ReasonConfigurationMissing,
		},
		"the login to etcd": {
			spec:  v1alpha1.ControlPlaneSpec{Storage: v1alpha1.ControlPlaneStorage{Etcd: &v1alpha1.EtcdStorage{SecretName: "given"}}},
			given: &corev1.Secret{ObjectMeta: given, Data: map[string][]byte{tlsCert: certPEM, tlsKey: keyPEM, etcdAuthority: authority.PEM()}},
			name:  "cp-etcd", key: etcdAuthority,
			step: (*Reconciler).ensureEtcd, missing: v1alpha1.ReasonEtcdSecretMissing,
		},
	}
}

// copied has a step copy what is given, for a new ControlPlane, and returns the Secret.
func (c *copying) copied(t *testing.T) *corev1.Secret {
	t.Helper()
	cp := named(func(cp *v1alpha1.ControlPlane) { cp.Spec = c.spec })
	r, host := hostOf(t, cp, c.given.DeepCopyObject().(client.Object))
	if err := c.do(t, r, host, workOf(t, host, cp)); err != nil {
		t.Fatal(err)
	}
	return secretOf(t, host, c.name)
}

func (c *copying) do(t *testing.T, r *Reconciler, host client.Client, w *work) error {
	t.Helper()
	r.Client, r.now = host, time.Now
	if err := r.ensureKeys(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return c.step(r, t.Context(), w)
}

func secretOf(t *testing.T, host client.Client, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := host.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestNothingPlantedIsUsed has a Secret in the place of a copy that was made by who may create Secrets:
// the labels are those of the operator's own, and so is the content.
func TestNothingPlantedIsUsed(t *testing.T) {
	for name, c := range copyings(t) {
		t.Run(name, func(t *testing.T) {
			planted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: c.name, Labels: labelsOf(named())}, Data: c.copied(t).Data}
			cp := named(func(cp *v1alpha1.ControlPlane) { cp.Spec = c.spec })
			r, host := hostOf(t, cp, planted.DeepCopy())
			w := workOf(t, host, cp)
			if err := c.do(t, r, host, w); reasonOf(err) != c.missing {
				t.Errorf("got %v, want the reason %s", err, c.missing)
			}
			if len(w.copies) > 0 {
				t.Error("the status would have it")
			}

			// It does not matter what is given then.
			if err := host.Create(t.Context(), c.given.DeepCopyObject().(client.Object)); err != nil {
				t.Fatal(err)
			}
			patched := planted.DeepCopy()
			patched.Data["authentication.more"] = []byte("planted")
			if err := host.Update(t.Context(), patched); err != nil {
				t.Fatal(err)
			}
			if err := c.do(t, r, host, w); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(planted.Data, secretOf(t, host, c.name).Data); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCopiesAreKept has what was given go, with the copy that the status names and with others.
func TestCopiesAreKept(t *testing.T) {
	for name, c := range copyings(t) {
		for _, tc := range []struct {
			name string
			// change is what somebody does to the copy.
			change func(*corev1.Secret)
			kept   bool
		}{
			{"as it was", func(*corev1.Secret) {}, true},
			{"another one", func(s *corev1.Secret) { s.Data[c.key] = append(s.Data[c.key], '\n') }, false},
			{"more in it", func(s *corev1.Secret) { s.Data["authentication.more"] = []byte("planted") }, false},
			{"nothing in it", func(s *corev1.Secret) { s.Data = nil }, false},
		} {
			t.Run(name+", "+tc.name, func(t *testing.T) {
				cp := named(func(cp *v1alpha1.ControlPlane) { cp.Spec = c.spec })
				given := c.given.DeepCopyObject().(client.Object)
				r, host := hostOf(t, cp, given)
				w := workOf(t, host, cp)
				if err := c.do(t, r, host, w); err != nil {
					t.Fatal(err)
				}
				w = nextWork(w)
				before := secretOf(t, host, c.name)
				tc.change(before)
				if err := host.Update(t.Context(), before); err != nil {
					t.Fatal(err)
				}
				if err := host.Delete(t.Context(), given); err != nil {
					t.Fatal(err)
				}
				err := c.do(t, r, host, w)
				if tc.kept && (err != nil || reasonOf(w.remaining) != c.missing) || !tc.kept && reasonOf(err) != c.missing {
					t.Errorf("got %v, and %v", err, w.remaining)
				}
				if len(w.copies) > 0 != tc.kept {
					t.Errorf("the status would have %v", w.copies)
				}
			})
		}
	}
}

// nextWork returns the work of the next reconcile, once the status was written.
func nextWork(w *work) *work {
	next := w.cp.DeepCopy()
	record(&next.Status, w.copies)
	return &work{cp: next}
}

// TestRecord checks that a status has one digest of each copy.
func TestRecord(t *testing.T) {
	status := &v1alpha1.ControlPlaneStatus{}
	one, two, changed := v1alpha1.ControlPlaneCopy{SecretName: "a", Digest: "1"}, v1alpha1.ControlPlaneCopy{SecretName: "b", Digest: "2"}, v1alpha1.ControlPlaneCopy{SecretName: "a", Digest: "3"}
	for _, copies := range [][]v1alpha1.ControlPlaneCopy{{one, two}, nil, {changed}} {
		record(status, copies)
	}
	if diff := cmp.Diff([]v1alpha1.ControlPlaneCopy{two, changed}, status.Copies); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDigestsOfCopies checks that who does not know the keys of a ControlPlane cannot tell what was copied.
func TestDigestsOfCopies(t *testing.T) {
	data := map[string][]byte{"password": []byte("secret")}
	seen := map[string]bool{digestOf(data): true}
	for range 2 {
		cp := named()
		r, host := hostOf(t, cp)
		w := workOf(t, host, cp)
		if err := r.ensureKeys(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			made, err := w.copyOf("s", maps.Clone(data))
			if err != nil {
				t.Fatal(err)
			}
			seen[made.Digest] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("there are %d digests, want 3: one without a key, and one of each ControlPlane", len(seen))
	}
}
