package controlplane

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

const (
	// etcdAuthority, and tlsCert with tlsKey, are the files of Secrets of etcd, as kubectl and
	// cert-manager name them.
	etcdAuthority = "ca.crt"
	tlsCert       = corev1.TLSCertKey
	tlsKey        = corev1.TLSPrivateKeyKey
)

// ensureEtcd makes the Secret by which servers log in to an external etcd. It is a copy: what
// somebody else deletes, empties or spoils does not reach a server, and servers are made and
// changed with what there was before.
func (r *Reconciler) ensureEtcd(ctx context.Context, w *work) error {
	if w.cp.Spec.Storage.Etcd == nil {
		return nil
	}
	data, err := r.givenEtcd(ctx, w.cp)
	if conditions.IsProblem(err) {
		before, readErr := r.copied(ctx, w, etcdName(w.cp))
		if readErr != nil {
			return readErr
		}
		if checkEtcd(before, r.now()) == nil {
			data, w.remaining, err = before, err, nil
		}
	}
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data[etcdAuthority])
	w.etcdAuthority = hex.EncodeToString(sum[:8])
	observeExpiry(w.cp, "etcd", data[tlsCert])
	return r.applyCopy(ctx, w, etcdName(w.cp), map[string][]byte{
		tlsCert: data[tlsCert], tlsKey: data[tlsKey], etcdAuthority: data[etcdAuthority],
	})
}

// givenEtcd returns the content of the Secret that the spec names, if servers can log in to
// etcd with it.
func (r *Reconciler) givenEtcd(ctx context.Context, cp *v1alpha1.ControlPlane) (map[string][]byte, error) {
	name := cp.Spec.Storage.Etcd.SecretName
	given := &corev1.Secret{}
	switch err := r.given(ctx, cp, name, given); {
	case errors.Is(err, errNotGiven):
		return nil, conditions.Problemf(v1alpha1.ReasonEtcdSecretMissing, "spec.storage.etcd.secretName: there is no Secret %q with the label %s=%s "+
			"that the operator has not made: create it with %s, %s and %s, or label it", name, ofLabel, cp.Name, tlsCert, tlsKey, etcdAuthority)
	case err != nil:
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	if err := checkEtcd(given.Data, r.now()); err != nil {
		return nil, conditions.Problemf(v1alpha1.ReasonEtcdSecretInvalid, "Secret %q: %v: correct it; servers go on with what they had", name, err)
	}
	return given.Data, nil
}

// checkEtcd reports why nobody logs in to etcd with the content of a Secret.
func checkEtcd(data map[string][]byte, now time.Time) error {
	for _, file := range []string{tlsCert, tlsKey, etcdAuthority} {
		if len(data[file]) == 0 {
			return fmt.Errorf("%s is missing or empty", file)
		}
	}
	pair, err := tls.X509KeyPair(data[tlsCert], data[tlsKey])
	if err != nil {
		return fmt.Errorf("%s and %s are no certificate and its key (%w)", tlsCert, tlsKey, err)
	}
	if now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("the certificate in %s expired on %s", tlsCert, pair.Leaf.NotAfter.Format(time.DateTime))
	}
	if _, err := cert.ParseCertsPEM(data[etcdAuthority]); err != nil {
		return fmt.Errorf("%s holds no certificate (%w)", etcdAuthority, err)
	}
	return nil
}

// etcdArgs are the flags by which a server stores in an external etcd.
func etcdArgs(cp *v1alpha1.ControlPlane, claim string) []string {
	etcd := cp.Spec.Storage.Etcd
	args := []string{
		"--etcd-servers=" + strings.Join(slices.Sorted(slices.Values(etcd.Endpoints)), ","),
		"--etcd-prefix=" + etcdPrefix(cp),
		"--etcd-claim=" + claim,
		"--etcd-certfile=" + etcdDir + "/" + tlsCert,
		"--etcd-keyfile=" + etcdDir + "/" + tlsKey,
		"--etcd-cafile=" + etcdDir + "/" + etcdAuthority,
	}
	for _, o := range etcd.Overrides {
		resource := schema.ParseGroupResource(o.Resource)
		args = append(args, fmt.Sprintf("--etcd-servers-overrides=%s/%s#%s", resource.Group, resource.Resource,
			strings.Join(slices.Sorted(slices.Values(o.Endpoints)), ";")))
	}
	return args
}

// etcdPrefix is where the objects of a ControlPlane are in its etcd. By default it is another
// one for each ControlPlane of a host.
func etcdPrefix(cp *v1alpha1.ControlPlane) string {
	if prefix := cp.Spec.Storage.Etcd.Prefix; prefix != "" {
		return prefix
	}
	return "/control-planes/" + cp.Namespace + "/" + cp.Name
}
