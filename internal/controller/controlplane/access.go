package controlplane

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/pki"
)

// ManagedLabel has the value FieldManager, and OfLabel that of the name of the ControlPlane, on
// what is made for one.
const (
	ManagedLabel = managedLabel
	OfLabel      = ofLabel
)

// Access is what clients of a ControlPlane's servers are made of.
type Access struct {
	// Version changes with the rest.
	Version string
	// System issues users of the system space, and Tenants those of all others.
	System, Tenants *pki.PKI
	// Endpoint is the URL of the servers within the host cluster, and ServerName the name
	// that their certificate has for it.
	Endpoint, ServerName string
}

// ReadAccess reads what clients of a ControlPlane are made of, unless its version is the known
// one. host has what the operator has made. An error says what is missing.
func ReadAccess(ctx context.Context, host client.Reader, cp *v1alpha1.ControlPlane, known string) (Access, error) {
	secrets := map[string]*corev1.Secret{authoritiesName(cp): {}, keysName(cp): {}}
	for name, secret := range secrets {
		if err := readMade(ctx, host, cp, "Secret", name, secret); err != nil {
			return Access{}, err
		}
	}
	service := &corev1.Service{}
	if err := readMade(ctx, host, cp, "Service", cp.Name, service); err != nil {
		return Access{}, err
	}
	authorities, keys := secrets[authoritiesName(cp)], secrets[keysName(cp)]
	if authority := cp.Status.CertificateAuthority; authority != string(authorities.Data[serverCA+crt]) {
		return Access{}, conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q has not the authority that status.certificateAuthority names", authorities.Name)
	}
	for _, secret := range secrets {
		if recordsKeys(cp) && !isRecorded(cp, secret) {
			return Access{}, conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q has not the keys that status.keys names", secret.Name)
		}
	}
	version := fmt.Sprintf("%s/%s %s/%s %s", authorities.UID, authorities.ResourceVersion, keys.UID, keys.ResourceVersion, service.Spec.ClusterIP)
	if version == known {
		return Access{Version: known}, nil
	}
	found := map[string]*pki.Authority{}
	for name, secret := range map[string]*corev1.Secret{serverCA: authorities, systemCA: authorities, clientCA: keys} {
		var err error
		if found[name], err = parse(secret.Name, name, secret.Data); err != nil {
			return Access{}, err
		}
	}
	return Access{
		Version:    version,
		System:     &pki.PKI{ServerCA: found[serverCA], ClientCA: found[systemCA]},
		Tenants:    &pki.PKI{ServerCA: found[serverCA], ClientCA: found[clientCA]},
		Endpoint:   "https://" + net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(servicePort)),
		ServerName: serviceHost(cp),
	}, nil
}

// readMade reads what the operator has made, and says if it has not.
func readMade(ctx context.Context, host client.Reader, cp *v1alpha1.ControlPlane, kind, name string, live client.Object) error {
	found, err := checked(cp, kind, name, live, host.Get(ctx, types.NamespacedName{Namespace: cp.Namespace, Name: name}, live))
	if err == nil && !found {
		return conditions.Problemf(v1alpha1.ReasonServersNotReady, "%s %q of ControlPlane %q is not there yet", kind, name, cp.Name)
	}
	return err
}
