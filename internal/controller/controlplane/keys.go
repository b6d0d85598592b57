package controlplane

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/pki"
)

const (
	serverCA         = "server-ca"
	systemCA         = "system-ca"
	frontProxyCA     = "front-proxy-ca"
	clientCA         = "client-ca"
	server           = "server"
	frontProxyClient = "front-proxy-client"
	serviceAccount   = "service-account"

	crt, key = ".crt", ".key"

	// identity is the file of what tells a ControlPlane from all others, also of other hosts.
	// A ControlPlane that goes on with the keys of an earlier one has its identity.
	identity = "identity"

	// servingLeft is what certificates of servers have left at least of their year.
	servingLeft = 365 * 24 * time.Hour / 3
)

// authorities are those that the operator alone has the keys of.
type authorities struct {
	server, system, frontProxy *pki.Authority
	// signing are the files that servers sign with, and keys the digests of both Secrets.
	signing map[string][]byte
	keys    []v1alpha1.ControlPlaneKeys
	// claim is by what servers know whether the objects in an etcd are theirs.
	claim string
}

// ensureKeys makes the two Secrets that nobody could make again: of the authorities, whose
// keys no server has, and of what servers sign with.
func (r *Reconciler) ensureKeys(ctx context.Context, w *work) error {
	data, err := r.once(ctx, w, nil, authoritiesName(w.cp), func() (map[string][]byte, error) {
		made, err := newAuthorities(serverCA, systemCA, frontProxyCA)
		if err == nil {
			made[identity] = []byte(uuid.NewUUID())
		}
		return made, err
	})
	if err != nil {
		return err
	}
	found := &authorities{keys: []v1alpha1.ControlPlaneKeys{{SecretName: authoritiesName(w.cp), Digest: digestOf(data)}}}
	for name, into := range map[string]**pki.Authority{
		serverCA: &found.server, systemCA: &found.system, frontProxyCA: &found.frontProxy,
	} {
		if *into, err = parse(authoritiesName(w.cp), name, data); err != nil {
			return err
		}
	}
	if w.cp.Spec.Storage.Etcd != nil && len(validation.IsDNS1123Label(string(data[identity]))) > 0 {
		return conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q: %s is no UUID: restore it from a backup", authoritiesName(w.cp), identity)
	}
	found.claim = fmt.Sprintf("%s/%s/%s", w.cp.Namespace, w.cp.Name, data[identity])
	if known := w.cp.Status.CertificateAuthority; known != "" && known != string(found.server.PEM()) {
		return conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q has other authorities than this ControlPlane was made with (status.certificateAuthority): restore it from a backup", authoritiesName(w.cp))
	}
	data, err = r.once(ctx, w, found.system, keysName(w.cp), func() (map[string][]byte, error) {
		made, err := newAuthorities(clientCA)
		if err == nil {
			made[serviceAccount+key], err = keyutil.MakeEllipticPrivateKeyPEM()
		}
		return made, err
	})
	if err != nil {
		return err
	}
	if _, err := parse(keysName(w.cp), clientCA, data); err != nil {
		return err
	}
	if _, err := keyutil.ParsePrivateKeyPEM(data[serviceAccount+key]); err != nil {
		return conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q: %s holds no private key: restore it from a backup", keysName(w.cp), serviceAccount+key)
	}
	found.signing = map[string][]byte{clientCA + crt: data[clientCA+crt], clientCA + key: data[clientCA+key]}
	found.keys = append(found.keys, v1alpha1.ControlPlaneKeys{SecretName: keysName(w.cp), Digest: digestOf(data)})
	if err := r.adoptTokenKey(ctx, w, found.system); err != nil {
		return err
	}
	w.authorities = found // by which the status says that there are keys: all of them
	return nil
}

// once returns the content of a Secret of keys, which is made if the ControlPlane never had
// one. It has no owner: it is needed again with the volume. What a cache remembers is not
// enough to tell whether there are keys. What is made is recorded before, so that nobody's Secret
// is taken for it. system proves it, nil if nothing does.
func (r *Reconciler) once(ctx context.Context, w *work, system *pki.Authority, name string, generate func() (map[string][]byte, error)) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	found, err := r.readLive(ctx, w.cp, "Secret", name, secret)
	switch {
	case err != nil:
		return nil, err
	case found:
		return secret.Data, r.takeMade(ctx, w, system, secret)
	case w.cp.Status.CertificateAuthority != "":
		return nil, conditions.Problemf(v1alpha1.ReasonKeysMissing, "Secret %q is missing: restore it from a backup. Without one, delete the ControlPlane, "+
			"which keeps its volume, and apply it again: new keys are made, and all kubeconfigs have to be handed out anew", name)
	}
	data, err := generate()
	if err != nil {
		return nil, fmt.Errorf("making the keys of Secret %q: %w", name, err)
	}
	return data, r.create(ctx, w, system, name, data)
}

// takeMade checks a Secret of keys that is there, and proves it for the next ControlPlane of the name.
func (r *Reconciler) takeMade(ctx context.Context, w *work, system *pki.Authority, secret *corev1.Secret) error {
	if err := w.checkMade(system, secret); err != nil || system == nil {
		return err
	}
	return r.prove(ctx, system, secret)
}

// create creates a Secret of keys, once the status says what is in it.
func (r *Reconciler) create(ctx context.Context, w *work, system *pki.Authority, name string, data map[string][]byte) error {
	if err := r.recordKeys(ctx, w, v1alpha1.ControlPlaneKeys{SecretName: name, Digest: digestOf(data)}); err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cp.Namespace, Name: name, Labels: labelsOf(w.cp)},
		Immutable:  new(true),
		Data:       data,
	}
	if system != nil {
		proof, err := proofOf(system, name, data)
		if err != nil {
			return err
		}
		secret.Annotations = map[string]string{provedBy: proof}
	}
	if err := r.Client.Create(ctx, secret, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("creating Secret %q: %w", name, err)
	}
	keysMade(name).Record(r.Events, w.cp)
	return nil
}

func newAuthorities(names ...string) (map[string][]byte, error) {
	data := map[string][]byte{}
	for _, name := range names {
		authority, err := pki.NewAuthority("tenantry " + name)
		if err != nil {
			return nil, err
		}
		data[name+crt] = authority.PEM()
		if data[name+key], err = authority.KeyPEM(); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func parse(secret, name string, data map[string][]byte) (*pki.Authority, error) {
	authority, err := pki.ParseAuthority(name, data[name+crt], data[name+key])
	if err != nil {
		return nil, conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q: %v", secret, err)
	}
	return authority, nil
}

// ensureServing makes the Secret that servers mount, and renews what is in it, which they read
// again. What they sign with is a copy: nobody's Secret in the place of that of keys gets to them.
func (r *Reconciler) ensureServing(ctx context.Context, w *work) error {
	current := &corev1.Secret{}
	if _, err := r.read(ctx, w.cp, "Secret", servingName(w.cp), current); err != nil {
		return err
	}
	data := map[string][]byte{serverCA + crt: w.authorities.server.PEM(), systemCA + crt: w.authorities.system.PEM()}
	for name, by := range map[string]issuing{
		server:           {w.authorities.server, pki.ServingTemplate(w.hosts...)},
		frontProxyClient: {w.authorities.frontProxy, pki.FrontProxyTemplate()},
	} {
		var err error
		if data[name+crt], data[name+key], err = by.renew(current.Data[name+crt], current.Data[name+key]); err != nil {
			return fmt.Errorf("issuing the certificate %q: %w", name, err)
		}
	}
	maps.Copy(data, w.authorities.signing)
	maps.Copy(data, w.tokenKeys.files())
	observeExpiry(w.cp, server, data[server+crt])
	if err := r.applySecret(ctx, w.cp, servingName(w.cp), data); err != nil {
		return err
	}
	w.tokenKeys.given(r.now())
	return nil
}

func (r *Reconciler) applySecret(ctx context.Context, cp *v1alpha1.ControlPlane, name string, data map[string][]byte) error {
	secret := applycorev1.Secret(name, cp.Namespace).WithLabels(labelsOf(cp)).WithOwnerReferences(owner(cp)).
		WithType(corev1.SecretTypeOpaque).WithData(data)
	err := r.apply(ctx, cp, secret, &corev1.Secret{})
	if apierrors.IsInvalid(err) { // its type, or that it is immutable
		return conditions.Problemf(v1alpha1.ReasonNameTaken, "Secret %q cannot be changed: delete it, and it is made again (%v)", name, err)
	}
	if err != nil {
		return err
	}
	return r.removeOthers(ctx, secret, data)
}
