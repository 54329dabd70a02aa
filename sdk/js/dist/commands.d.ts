/** Params and results of the commands, by name. */
export interface Commands {
    /** Add an agent elsewhere that speaks A2A, by its card; it is used once its card is approved. */
    "a2a.agent.add": {
        params: {
            agent_id: string;
            credential?: string;
            extended?: boolean;
            mqtt?: string;
            risk?: "low" | "medium" | "high" | "ask" | "deny";
            space_id?: string;
            timeout_ms?: number;
            url?: string;
        };
        result: {
            added_at: number;
            added_by: string;
            agent_id: string;
            approved_at?: number;
            approved_by?: string;
            binding: string;
            digest: string;
            endpoint: string;
            extended: boolean;
            has_credential: boolean;
            name: string;
            problem?: string;
            publisher?: string;
            space_id: string;
            state: "new" | "approved" | "changed";
            url: string;
        };
    };
    /** Approve the card of an agent elsewhere as it is now, so that the agent can be used. */
    "a2a.agent.approve": {
        params: {
            agent_id: string;
            digest: string;
            space_id?: string;
        };
        result: {
            added_at: number;
            added_by: string;
            agent_id: string;
            approved_at?: number;
            approved_by?: string;
            binding: string;
            digest: string;
            endpoint: string;
            extended: boolean;
            has_credential: boolean;
            name: string;
            problem?: string;
            publisher?: string;
            space_id: string;
            state: "new" | "approved" | "changed";
            url: string;
        };
    };
    /** Show an agent elsewhere, its card, and what its skills become here. */
    "a2a.agent.get": {
        params: {
            agent_id: string;
            space_id?: string;
        };
        result: {
            added_at: number;
            added_by: string;
            agent_id: string;
            approved_at?: number;
            approved_by?: string;
            binding: string;
            capabilities: {
                capability_id: string;
                description?: string;
                name?: string;
            }[];
            card: unknown;
            digest: string;
            endpoint: string;
            extended: boolean;
            has_credential: boolean;
            left_out?: number;
            name: string;
            problem?: string;
            publisher?: string;
            space_id: string;
            state: "new" | "approved" | "changed";
            url: string;
        };
    };
    /** List the agents elsewhere that a space uses, or that wait for approval. */
    "a2a.agent.list": {
        params: {
            cursor?: string;
            limit?: number;
            sort?: "id" | "-id" | "added_at" | "-added_at";
            space_id?: string;
            state?: "new" | "approved" | "changed";
        };
        result: {
            agents: ({
                added_at: number;
                added_by: string;
                agent_id: string;
                approved_at?: number;
                approved_by?: string;
                binding: string;
                digest: string;
                endpoint: string;
                extended: boolean;
                has_credential: boolean;
                name: string;
                problem?: string;
                publisher?: string;
                space_id: string;
                state: "new" | "approved" | "changed";
                url: string;
            })[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Read the card of an agent elsewhere now; one that has changed waits for approval. */
    "a2a.agent.refresh": {
        params: {
            agent_id: string;
            space_id?: string;
        };
        result: {
            added_at: number;
            added_by: string;
            agent_id: string;
            approved_at?: number;
            approved_by?: string;
            binding: string;
            digest: string;
            endpoint: string;
            extended: boolean;
            has_credential: boolean;
            name: string;
            problem?: string;
            publisher?: string;
            space_id: string;
            state: "new" | "approved" | "changed";
            url: string;
        };
    };
    /** Forget an agent elsewhere, with its credential, and use it no more. */
    "a2a.agent.remove": {
        params: {
            agent_id: string;
            space_id?: string;
        };
        result: {
            agent_id: string;
        };
    };
    /** Say why an agent does not work, and what to do about it. */
    "agent.doctor": {
        params: {
            agent_id: string;
            space_id?: string;
        };
        result: {
            agent_id: string;
            checks: {
                check: string;
                state: string;
                what: string;
            }[];
            findings: {
                at?: number;
                check: string;
                do: string;
                kind?: string;
                severity: string;
                times?: number;
                what: string;
            }[];
            healthy: boolean;
            recent: {
                address?: string;
                at: number;
                client_id?: string;
                code?: string;
                first_at: number;
                kind: string;
                reason?: string;
                times: number;
                topic?: string;
                what: string;
            }[];
            space_id: string;
            summary: string;
        };
    };
    /** Show an agent. */
    "agent.get": {
        params: {
            agent_id: string;
            space_id?: string;
        };
        result: {
            agent_id: string;
            endpoints?: string[];
            last_heartbeat?: number;
            name?: string;
            owner: string;
            presence: {
                at: number;
                reason?: string;
                status: string;
            }[];
            registered_at: number;
            request_topic: string;
            response_topic: string;
            since?: number;
            skill_count: number;
            skills: string[];
            space_id: string;
            status: string;
            tags?: Record<string, string>;
            type: string;
            updated_at: number;
        };
    };
    /** Say that an agent is alive. */
    "agent.heartbeat": {
        params: {
            agent_id: string;
            space_id?: string;
        };
        result: {
            agent_id: string;
            heartbeat_interval: number;
            status: string;
        };
    };
    /** List the agents of a space. */
    "agent.list": {
        params: {
            cursor?: string;
            find?: string;
            limit?: number;
            selector?: string;
            sort?: "id" | "-id" | "name" | "-name" | "type" | "-type" | "status" | "-status" | "since" | "-since" | "registered_at" | "-registered_at";
            space_id?: string;
            status?: "online" | "offline";
            type?: "mcp_agent" | "route_agent" | "end_agent";
        };
        result: {
            agents: {
                agent_id: string;
                endpoints?: string[];
                last_heartbeat?: number;
                name?: string;
                owner: string;
                registered_at: number;
                since?: number;
                space_id: string;
                status: string;
                tags?: Record<string, string>;
                type: string;
                updated_at: number;
            }[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Introduce an agent, or register it anew. */
    "agent.register": {
        params: {
            agent_id: string;
            cert_sn?: string;
            endpoints?: string[];
            join?: string;
            name?: string;
            skills?: ({
                capabilities: (string | {
                    capability_id: string;
                    description?: string;
                    effect?: "read" | "act";
                    effect_key?: string;
                    effect_window_ms?: number;
                    format?: "annotate" | "assert";
                    idempotent?: boolean;
                    name?: string;
                    params_schema?: Record<string, unknown> | boolean;
                    reconcile?: {
                        capability_id: string;
                        done_when: Record<string, string | number | boolean>;
                        not_done_when?: Record<string, string | number | boolean>;
                        params?: Record<string, string | number | boolean>;
                    };
                    result_schema?: Record<string, unknown> | boolean;
                    risk?: string;
                    sealed?: "optional" | "required";
                })[];
                description?: string;
                encryption_keys?: {
                    chain?: string[];
                    expires?: number;
                    key: string;
                    kid: string;
                    signature?: string;
                    suite: "X25519-SHA256-AES256GCM";
                }[];
                endpoints?: string[];
                name: string;
                skill_id: string;
                state_schema?: Record<string, unknown> | boolean;
                type?: "system" | "custom";
                version?: string;
            })[];
            space_id?: string;
            tags?: Record<string, string>;
            type: "mcp_agent" | "route_agent" | "end_agent";
        };
        result: {
            agent_id: string;
            heartbeat_interval: number;
            request_topic: string;
            response_topic: string;
            space_id: string;
            status: string;
        };
    };
    /** Change the tags that selectors choose an agent by. */
    "agent.tag": {
        params: {
            agent_id: string;
            remove?: string[];
            space_id?: string;
            tags?: Record<string, string>;
        };
        result: {
            agent_id: string;
            tags: Record<string, string>;
        };
    };
    /** Take an agent out of the registry, and with it every skill that only it provides. */
    "agent.unregister": {
        params: {
            agent_id: string;
            space_id?: string;
        };
        result: {
            agent_id: string;
            skills: string[];
            status: string;
        };
    };
    /** Approve or deny several equal calls that wait: the same tool, arguments and roster. Each is decided by itself, as by approval.decide. */
    "approval.batch": {
        params: {
            approvals: {
                approval_id: string;
                nonce: string;
            }[];
            decision: "approve" | "deny";
            reason?: string;
        };
        result: {
            decided: {
                approval_id: string;
                code?: string;
                message?: string;
                state?: string;
            }[];
            failed: number;
        };
    };
    /** End an approval that a site has requested: the site has taken its decision over, or does not wait for one any more. */
    "approval.close": {
        params: {
            approval_id: string;
            reason?: string;
            taken?: boolean;
        };
        result: {
            approval_id: string;
            arguments: unknown;
            asked_at: number;
            changes?: string[];
            decided_at?: number;
            decided_by?: string;
            deciders?: {
                people?: string[];
                roles?: string[];
                substitutes?: Record<string, string>;
            };
            edited_by?: string;
            edited_for?: string;
            edits?: number;
            ended_at?: number;
            escalated_at?: number;
            escalates_at?: number;
            escalates_to?: {
                people?: string[];
                roles?: string[];
                substitutes?: Record<string, string>;
            };
            expires_at: number;
            hash: string;
            link?: string;
            needs?: number;
            nonce?: string;
            policy?: string;
            reason?: string;
            reminded_at?: number;
            replaces?: string;
            requester: string;
            requester_kind?: string;
            risk?: string;
            roster?: string[];
            session_id?: string;
            skill_id?: string;
            source?: string;
            space_id: string;
            state: "pending" | "approved" | "used" | "denied" | "expired" | "withdrawn";
            task_id?: string;
            title?: string;
            tool: string;
            trace_id?: string;
            used_under?: string;
            votes?: {
                at: number;
                by: string;
                for?: string;
                reason?: string;
            }[];
            why: string;
        };
    };
    /** Approve or deny a call of a tool that waits for it. */
    "approval.decide": {
        params: {
            approval_id: string;
            decision: "approve" | "deny";
            nonce: string;
            reason?: string;
        };
        result: {
            approval_id: string;
            needs?: number;
            state: "pending" | "approved" | "denied";
            votes?: number;
        };
    };
    /** Change the arguments of a call that waits for approval. It is asked about anew, under another nonce; who has agreed to it before has not agreed to this. */
    "approval.edit": {
        params: {
            approval_id: string;
            arguments: unknown;
            nonce: string;
            reason?: string;
        };
        result: {
            approval_id: string;
            arguments: unknown;
            asked_at: number;
            changes?: string[];
            decided_at?: number;
            decided_by?: string;
            deciders?: {
                people?: string[];
                roles?: string[];
                substitutes?: Record<string, string>;
            };
            edited_by?: string;
            edited_for?: string;
            edits?: number;
            ended_at?: number;
            escalated_at?: number;
            escalates_at?: number;
            escalates_to?: {
                people?: string[];
                roles?: string[];
                substitutes?: Record<string, string>;
            };
            expires_at: number;
            hash: string;
            link?: string;
            needs?: number;
            nonce?: string;
            policy?: string;
            reason?: string;
            reminded_at?: number;
            replaces?: string;
            requester: string;
            requester_kind?: string;
            risk?: string;
            roster?: string[];
            session_id?: string;
            skill_id?: string;
            source?: string;
            space_id: string;
            state: "pending" | "approved" | "used" | "denied" | "expired" | "withdrawn";
            task_id?: string;
            title?: string;
            tool: string;
            trace_id?: string;
            used_under?: string;
            votes?: {
                at: number;
                by: string;
                for?: string;
                reason?: string;
            }[];
            why: string;
        };
    };
    /** Show a call of a tool that waits for approval, or what became of it. */
    "approval.get": {
        params: {
            approval_id: string;
        };
        result: {
            approval_id: string;
            arguments: unknown;
            asked_at: number;
            changes?: string[];
            decided_at?: number;
            decided_by?: string;
            deciders?: {
                people?: string[];
                roles?: string[];
                substitutes?: Record<string, string>;
            };
            edited_by?: string;
            edited_for?: string;
            edits?: number;
            ended_at?: number;
            escalated_at?: number;
            escalates_at?: number;
            escalates_to?: {
                people?: string[];
                roles?: string[];
                substitutes?: Record<string, string>;
            };
            expires_at: number;
            hash: string;
            link?: string;
            needs?: number;
            nonce?: string;
            policy?: string;
            reason?: string;
            reminded_at?: number;
            replaces?: string;
            requester: string;
            requester_kind?: string;
            risk?: string;
            roster?: string[];
            session_id?: string;
            skill_id?: string;
            source?: string;
            space_id: string;
            state: "pending" | "approved" | "used" | "denied" | "expired" | "withdrawn";
            task_id?: string;
            title?: string;
            tool: string;
            trace_id?: string;
            used_under?: string;
            votes?: {
                at: number;
                by: string;
                for?: string;
                reason?: string;
            }[];
            why: string;
        };
    };
    /** List the calls of tools that wait for approval, and what became of others; the latest first. */
    "approval.list": {
        params: {
            cursor?: string;
            find?: string;
            hash?: string;
            limit?: number;
            mine?: boolean;
            over?: boolean;
            sort?: "id" | "-id" | "tool" | "-tool" | "requester" | "-requester" | "expires_at" | "-expires_at" | "decided_at" | "-decided_at";
            state?: "pending" | "approved" | "used" | "denied" | "expired" | "withdrawn";
            tool?: string;
            trace_id?: string;
        };
        result: {
            approvals: ({
                approval_id: string;
                arguments: unknown;
                asked_at: number;
                changes?: string[];
                decided_at?: number;
                decided_by?: string;
                deciders?: {
                    people?: string[];
                    roles?: string[];
                    substitutes?: Record<string, string>;
                };
                edited_by?: string;
                edited_for?: string;
                edits?: number;
                ended_at?: number;
                escalated_at?: number;
                escalates_at?: number;
                escalates_to?: {
                    people?: string[];
                    roles?: string[];
                    substitutes?: Record<string, string>;
                };
                expires_at: number;
                hash: string;
                link?: string;
                needs?: number;
                nonce?: string;
                policy?: string;
                reason?: string;
                reminded_at?: number;
                replaces?: string;
                requester: string;
                requester_kind?: string;
                risk?: string;
                roster?: string[];
                session_id?: string;
                skill_id?: string;
                source?: string;
                space_id: string;
                state: "pending" | "approved" | "used" | "denied" | "expired" | "withdrawn";
                task_id?: string;
                title?: string;
                tool: string;
                trace_id?: string;
                used_under?: string;
                votes?: {
                    at: number;
                    by: string;
                    for?: string;
                    reason?: string;
                }[];
                why: string;
            })[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Have the people of this bridge decide about a call that waits at a site of it; for sites. Once for each approval_id: repeated, it tells how the approval stands. */
    "approval.request": {
        params: {
            approval_id: string;
            arguments: unknown;
            asked_by: string;
            expires_at: number;
            risk?: string;
            roster?: string[];
            site: string;
            source?: string;
            title?: string;
            tool: string;
            trace_id?: string;
            why: string;
        };
        result: {
            approval_id: string;
            arguments: unknown;
            asked_at: number;
            changes?: string[];
            decided_at?: number;
            decided_by?: string;
            deciders?: {
                people?: string[];
                roles?: string[];
                substitutes?: Record<string, string>;
            };
            edited_by?: string;
            edited_for?: string;
            edits?: number;
            ended_at?: number;
            escalated_at?: number;
            escalates_at?: number;
            escalates_to?: {
                people?: string[];
                roles?: string[];
                substitutes?: Record<string, string>;
            };
            expires_at: number;
            hash: string;
            link?: string;
            needs?: number;
            nonce?: string;
            policy?: string;
            reason?: string;
            reminded_at?: number;
            replaces?: string;
            requester: string;
            requester_kind?: string;
            risk?: string;
            roster?: string[];
            session_id?: string;
            skill_id?: string;
            source?: string;
            space_id: string;
            state: "pending" | "approved" | "used" | "denied" | "expired" | "withdrawn";
            task_id?: string;
            title?: string;
            tool: string;
            trace_id?: string;
            used_under?: string;
            votes?: {
                at: number;
                by: string;
                for?: string;
                reason?: string;
            }[];
            why: string;
        };
    };
    /** Show entries of the audit trail, the latest first, or what came after one. */
    "audit.query": {
        params: {
            after?: number;
            bridge_id?: string;
            code?: string;
            cursor?: string;
            event?: string;
            limit?: number;
            principal?: string;
            resource?: string;
            security?: boolean;
            since?: string;
            trace_id?: string;
            until?: string;
        };
        result: {
            entries: {
                action?: string;
                acts_for?: string;
                address?: string;
                async?: boolean;
                bridge_id?: string;
                cert_sn?: string;
                code: string;
                credential?: string;
                details?: Record<string, string>;
                door?: string;
                event: string;
                kind?: string;
                late?: boolean;
                method?: string;
                params?: unknown;
                params_digest?: string;
                params_sealed?: string;
                principal?: string;
                reason?: string;
                request_id?: string;
                resource?: string;
                security?: boolean;
                seq: number;
                space_id?: string;
                time: string;
                trace_id?: string;
            }[];
            follow_cursor?: string;
            last: number;
            next_cursor?: string;
            silent?: string[];
        };
    };
    /** Check every entry of the audit trails of all bridges: what was changed, is missing or stands elsewhere, and where. */
    "audit.verify": {
        params: {
            async?: boolean;
            head?: string;
            heads?: Record<string, string>;
        };
        result: {
            chain: string;
            chains?: ({
                bridge_id: string;
                chain: string;
                closed_at?: string;
                closed_by?: string;
                entries: number;
                first: number;
                head: string;
                last: number;
                ok: boolean;
                problems: {
                    bridge_id?: string;
                    from: number;
                    kind: string;
                    position?: number;
                    text: string;
                    to: number;
                }[];
                state: "live" | "stopped" | "closed" | "open" | "missing";
                unverified: number;
            })[];
            entries: number;
            first: number;
            head: string;
            last: number;
            ok: boolean;
            problems: {
                bridge_id?: string;
                from: number;
                kind: string;
                position?: number;
                text: string;
                to: number;
            }[];
            silent?: string[];
            unverified: number;
        };
    };
    /** Run several commands, one after the other or side by side. */
    "batch.execute": {
        params: {
            commands: {
                command: string;
                id?: string;
                params?: Record<string, unknown>;
            }[];
            mode?: "sequential" | "parallel";
            stop_on_error?: boolean;
        };
        result: {
            failure_count: number;
            results: {
                command: string;
                error: unknown;
                index: number;
                result: unknown;
                status: string;
            }[];
            success_count: number;
            total: number;
        };
    };
    /** Show where the bridge keeps its state, which bridges share it, and how they are. */
    "bridge.cluster": {
        params: Record<string, unknown>;
        result: {
            absent?: ({
                id: string;
                keeps: string;
                state: "left" | "dead";
            })[];
            bridge_id: string;
            epoch?: number;
            members: ({
                addresses?: Record<string, string>;
                age_ms: number;
                epoch: number;
                id: string;
                joined: number;
                keeps?: string;
                labels?: Record<string, string>;
                notes?: Record<string, string>;
                ready: boolean;
                revision: number;
                started_at: number;
                state: "standby" | "working" | "draining";
                version: string;
                why?: string;
                wire: number;
            })[];
            parts: {
                name: string;
                ok: boolean;
                why?: string;
            }[];
            peers?: ({
                address?: string;
                bridge_id: string;
                by: "direct" | "nats";
                dropped: number;
                epoch?: number;
                open: boolean;
                queued_bytes: number;
                served_by?: string;
                since?: number;
                why?: string;
            })[];
            replicas: number;
            servers?: string[];
            standby: boolean;
            store: "embedded" | "nats";
            working: "one" | "all";
        };
    };
    /** Show the configuration that the bridge runs with, without secrets. */
    "bridge.config": {
        params: Record<string, unknown>;
        result: {
            settings: {
                about?: string;
                changed?: boolean;
                env?: string;
                flag?: string;
                name: string;
                value: unknown;
            }[];
        };
    };
    /** Tell what commands there are, with their schemas, errors and permissions. */
    "bridge.describe": {
        params: {
            command?: string;
        };
        result: {
            bridge_id: string;
            commands: ({
                aliases?: string[];
                async?: boolean;
                effect: "read" | "write" | "act";
                errors: {
                    code: string;
                    summary: string;
                }[];
                example?: unknown;
                name: string;
                params_schema: unknown;
                permission: string;
                result_schema: unknown;
                summary: string;
            })[];
            doors?: {
                http?: number;
                mqtt?: number;
                mqtts?: number;
                tls_only?: boolean;
                ws?: number;
            };
            version: string;
        };
    };
    /** End a bridge of the cluster in order: it takes no more clients, sends those that it has to the others, hands over what it keeps, and ends. */
    "bridge.drain": {
        params: {
            bridge_id: string;
            window_seconds?: number;
        };
        result: {
            already?: boolean;
            clients: number;
            epoch: number;
            id: string;
            others: string[];
            window_seconds: number;
        };
    };
    /** Remove a bridge that has ended for good from the cluster: its copies of the state are made on others, and its id is used no more. */
    "bridge.remove": {
        params: {
            bridge_id: string;
        };
        result: {
            address?: string;
            already?: boolean;
            bridge_id: string;
            keepers?: number;
            kept_state?: boolean;
            lacking_copies?: number;
            served_by?: string;
        };
    };
    /** Show how the bridge is and what went through it during the last hour. */
    "bridge.status": {
        params: Record<string, unknown>;
        result: {
            bridge_id: string;
            centre?: {
                agents: number;
                not_shown?: string[];
                problem?: string;
                since: number;
                site: string;
                state: string;
                url: string;
            };
            links?: {
                bridge_id: string;
                connected: number;
                total: number;
                waiting: number;
            };
            protocol: string;
            readings: {
                name: string;
                now: number;
                points: number[];
                unit?: string;
            }[];
            ready: boolean;
            started_at: number;
            version: string;
            why?: string;
        };
    };
    /** Declare a Cap, or declare one's own anew. */
    "cap.declare": {
        params: {
            cap_desc?: string;
            cap_id: string;
            cap_name: string;
            cap_type?: string;
            data_storage_type?: string;
            disk_path?: string;
            group_file_path?: string;
            link_type?: string;
            links_file_path?: string;
            max_members?: number;
            skill_id: string;
            supported_scenes?: string[];
            sync_conflict?: "remote_wins" | "local_wins" | "latest_wins" | "keep_both";
            sync_enabled?: boolean;
            sync_interval?: number;
            sync_type?: "REAL_TIME" | "SCHEDULED";
        };
        result: {
            cap_id: string;
            revision: number;
        };
    };
    /** List Caps. */
    "cap.query": {
        params: {
            cap_id?: string;
            cursor?: string;
            find?: string;
            limit?: number;
            skill_id?: string;
            sort?: "id" | "-id" | "name" | "-name" | "skill" | "-skill" | "status" | "-status" | "groups" | "-groups" | "updated_at" | "-updated_at";
            status?: "active" | "inactive";
        };
        result: {
            caps: ({
                cap_desc?: string;
                cap_id: string;
                cap_name: string;
                cap_type?: string;
                data_storage_type?: string;
                declared_at: number;
                description?: string;
                disk_path?: string;
                group_file_path?: string;
                groups: number;
                link_type?: string;
                links_file_path?: string;
                max_members?: number;
                name: string;
                revision: number;
                skill_id: string;
                status: "active" | "inactive";
                supported_scenes?: string[];
                sync_conflict?: "remote_wins" | "local_wins" | "latest_wins" | "keep_both";
                sync_enabled: boolean;
                sync_interval?: number;
                sync_type?: "REAL_TIME" | "SCHEDULED";
                type: string;
                updated_at: number;
            })[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Remove a Cap. */
    "cap.remove": {
        params: {
            cap_id: string;
            force?: boolean;
        };
        result: {
            cap_id: string;
        };
    };
    /** Change what is declared about a Cap. */
    "cap.update": {
        params: {
            cap_id: string;
            cap_info: {
                cap_desc?: string;
                cap_name?: string;
                cap_type?: string;
                data_storage_type?: string;
                disk_path?: string;
                group_file_path?: string;
                link_type?: string;
                links_file_path?: string;
                max_members?: number;
                status?: "active" | "inactive";
                supported_scenes?: string[];
                sync_conflict?: "remote_wins" | "local_wins" | "latest_wins" | "keep_both";
                sync_enabled?: boolean;
                sync_interval?: number;
                sync_type?: "REAL_TIME" | "SCHEDULED";
            };
            revision?: number;
        };
        result: {
            cap_id: string;
            revision: number;
            updated_fields: string[];
        };
    };
    /** Bring back a lost or damaged Cap from the VFS, as it is there or was at a point in time. */
    "cap.vfs.recover": {
        params: {
            cap_id: string;
            dry_run?: boolean;
            snapshot_id?: string;
        };
        result: {
            cap_id: string;
            files: ({
                action: "create" | "replace" | "remove";
                checksum?: string;
                size: number;
                vfs_path: string;
            })[];
            recovery_status: "recovered" | "unchanged" | "dry_run";
            recovery_time: number;
            total: number;
        };
    };
    /** Mirror a file of a Cap, or all of them, to the VFS. */
    "cap.vfs.sync": {
        params: {
            cap_id: string;
            content?: string;
            sync_type?: "REAL_TIME" | "SCHEDULED";
            vfs_path: string;
        };
        result: {
            cap_id: string;
            checksum: string;
            reason?: string;
            sync_status: "synced" | "pending" | "syncing" | "conflict" | "failed";
            vfs_path: string;
        };
    };
    /** List the mirrors of Caps: where each stands, and what is behind. */
    "cap.vfs.sync.list": {
        params: {
            behind?: boolean;
            cursor?: string;
            find?: string;
            limit?: number;
            sort?: "id" | "-id" | "status" | "-status" | "pending" | "-pending" | "failed" | "-failed" | "conflicts" | "-conflicts" | "last_sync_time" | "-last_sync_time";
        };
        result: {
            behind: number;
            mirrors: ({
                cap_id: string;
                circuit: "closed" | "half_open" | "open";
                conflicts: number;
                failed: number;
                folders: number;
                folders_behind: number;
                last_sync_time: number;
                paused: boolean;
                pending: number;
                sync_status: "synced" | "pending" | "syncing" | "conflict" | "failed";
                trouble?: string;
            })[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Carry nothing over between a Cap and the VFS until it is resumed; folders of devices pause too. */
    "cap.vfs.sync.pause": {
        params: {
            cap_id: string;
        };
        result: {
            cap_id: string;
            paused: boolean;
        };
    };
    /** Tell where a device's folder stands that is kept the same as a Cap's disk, and learn what it is to do. */
    "cap.vfs.sync.report": {
        params: {
            cap_id: string;
            folder: {
                conflicts: number;
                failed: number;
                free: number;
                last_sync_time?: number;
                lost?: {
                    checksum: string;
                    lost_at: number;
                    path: string;
                    size: number;
                }[];
                name?: string;
                paused?: boolean;
                pending: number;
                problems?: {
                    path: string;
                    reason: string;
                }[];
                sync_status: "synced" | "pending" | "syncing" | "conflict" | "failed";
            };
            obeyed?: {
                order_id: number;
                reason?: string;
            }[];
        };
        result: {
            cap_id: string;
            paused: boolean;
            rescan: {
                contents?: boolean;
                rescan_time: number;
            };
            restore?: {
                checksum: string;
                order_id: number;
                path: string;
            }[];
        };
    };
    /** Look at everything in a Cap's folder and in the VFS now; folders of devices do so too. */
    "cap.vfs.sync.rescan": {
        params: {
            cap_id: string;
            contents?: boolean;
        };
        result: {
            cap_id: string;
            contents?: boolean;
            rescan_time: number;
        };
    };
    /** Bring back a copy of a file that lost a conflict, in the Cap's folder or in that of a device. What it replaces is kept in turn. */
    "cap.vfs.sync.restore": {
        params: {
            cap_id: string;
            checksum: string;
            folder?: string;
            owner?: string;
            vfs_path: string;
        };
        result: {
            cap_id: string;
            order_id?: number;
            reason?: string;
            sync_status: "synced" | "pending" | "syncing" | "conflict" | "failed";
            vfs_path: string;
        };
    };
    /** End the pause of a Cap's mirror: both ends are compared as a whole. */
    "cap.vfs.sync.resume": {
        params: {
            cap_id: string;
        };
        result: {
            cap_id: string;
            paused: boolean;
        };
    };
    /** Show where the mirror of a Cap stands, and its files. */
    "cap.vfs.sync.status": {
        params: {
            cap_id: string;
            cursor?: string;
            limit?: number;
            only?: "synced" | "pending" | "conflict" | "failed";
        };
        result: {
            cap_id: string;
            circuit: "closed" | "half_open" | "open";
            conflicts: number;
            degraded?: string;
            failed: number;
            files: ({
                checksum?: string;
                kept?: string;
                reason?: string;
                size: number;
                sync_status: "synced" | "pending" | "syncing" | "conflict" | "failed";
                version?: number;
                vfs_path: string;
            })[];
            folders?: ({
                conflicts: number;
                failed: number;
                free: number;
                last_sync_time?: number;
                lost?: {
                    checksum: string;
                    lost_at: number;
                    path: string;
                    size: number;
                }[];
                name?: string;
                owner: string;
                paused?: boolean;
                pending: number;
                problems?: {
                    path: string;
                    reason: string;
                }[];
                reported_at: number;
                restores?: ({
                    checksum: string;
                    order_id: number;
                    path: string;
                    reason?: string;
                    restore_status: "ordered" | "restored" | "failed";
                })[];
                sync_status: "synced" | "pending" | "syncing" | "conflict" | "failed";
            })[];
            free: number;
            last_sync_time: number;
            lost?: {
                checksum?: string;
                kept?: string;
                lost_at: number;
                rule: string;
                size: number;
                version?: number;
                vfs_path: string;
                winner?: string;
            }[];
            next_cursor?: string;
            noticed: "at_once" | "by_scan" | "on_schedule";
            paused: boolean;
            pending: number;
            sync_count: number;
            sync_status: "synced" | "pending" | "syncing" | "conflict" | "failed";
            trouble?: string;
        };
    };
    /** Approve a pending request, as an officer of its authority. */
    "cert.approve": {
        params: {
            reason?: string;
            request_id: string;
        };
        result: {
            chain?: string[];
            expires_at?: number;
            request_id?: string;
            serial?: string;
            status: string;
        };
    };
    /** Show a certificate with its chain, or a request. */
    "cert.get": {
        params: {
            request_id?: string;
            serial?: string;
        };
        result: {
            certificate?: {
                authority: string;
                expires_at: number;
                issued_at: number;
                issued_by: string;
                kind: string;
                principal: string;
                purpose?: string;
                reason?: string;
                renews?: string;
                request_id?: string;
                revoked_at?: number;
                revoked_by?: string;
                roles?: string[];
                scene_types?: string[];
                serial: string;
                skill_id?: string;
                space_id: string;
                status: string;
            };
            chain?: string[];
            request?: {
                authority: string;
                decided_at?: number;
                decided_by?: string;
                kind: string;
                principal: string;
                purpose?: string;
                reason?: string;
                request_id: string;
                requested_at: number;
                requested_by: string;
                roles?: string[];
                scene_types?: string[];
                serial?: string;
                skill_id?: string;
                space_id: string;
                status: string;
            };
            serial?: string;
            status: string;
        };
    };
    /** Issue the certificate of an approved request, once, or one directly, as an officer. */
    "cert.issue": {
        params: {
            agent_id?: string;
            authority?: "operator" | "appstore" | "enterprise";
            csr?: string;
            operator_id?: string;
            purpose?: string;
            request_id?: string;
            role?: string;
            roles?: string[];
            scene_types?: string[];
            skill_id?: string;
            space_id?: string;
            validity_seconds?: number;
        };
        result: {
            chain?: string[];
            expires_at?: number;
            request_id?: string;
            serial?: string;
            status: string;
        };
    };
    /** List the certificates of a space, or the requests for some. */
    "cert.list": {
        params: {
            authority?: "operator" | "appstore" | "enterprise";
            cursor?: string;
            expires_within_days?: number;
            limit?: number;
            of?: "certificates" | "requests";
            principal?: string;
            skill_id?: string;
            space_id?: string;
            status?: "valid" | "expired" | "revoked" | "not_yet_valid" | "pending" | "approved" | "rejected" | "issued";
        };
        result: {
            certificates?: {
                authority: string;
                expires_at: number;
                issued_at: number;
                issued_by: string;
                kind: string;
                principal: string;
                purpose?: string;
                reason?: string;
                renews?: string;
                request_id?: string;
                revoked_at?: number;
                revoked_by?: string;
                roles?: string[];
                scene_types?: string[];
                serial: string;
                skill_id?: string;
                space_id: string;
                status: string;
            }[];
            next_cursor?: string;
            requests?: {
                authority: string;
                decided_at?: number;
                decided_by?: string;
                kind: string;
                principal: string;
                purpose?: string;
                reason?: string;
                request_id: string;
                requested_at: number;
                requested_by: string;
                roles?: string[];
                scene_types?: string[];
                serial?: string;
                skill_id?: string;
                space_id: string;
                status: string;
            }[];
            total: number;
        };
    };
    /** Reject a pending request, as an officer of its authority. */
    "cert.reject": {
        params: {
            reason?: string;
            request_id: string;
        };
        result: {
            chain?: string[];
            expires_at?: number;
            request_id?: string;
            serial?: string;
            status: string;
        };
    };
    /** Issue a certificate anew for the same holder, with another key and serial; the old one stays good until it ends. */
    "cert.renew": {
        params: {
            csr: string;
            serial?: string;
            validity_seconds?: number;
        };
        result: {
            chain?: string[];
            expires_at?: number;
            request_id?: string;
            serial?: string;
            status: string;
        };
    };
    /** Ask an authority for a certificate, or claim one with a token. */
    "cert.request": {
        params: {
            agent_id?: string;
            authority?: "operator" | "appstore" | "enterprise";
            csr: string;
            operator_id?: string;
            purpose?: string;
            role?: string;
            roles?: string[];
            scene_types?: string[];
            skill_id?: string;
            space_id?: string;
            token?: string;
            validity_seconds?: number;
        };
        result: {
            chain?: string[];
            expires_at?: number;
            request_id?: string;
            serial?: string;
            status: string;
        };
    };
    /** Take a certificate back. Its sessions end at once, and nothing brings it back. */
    "cert.revoke": {
        params: {
            reason: string;
            renewals?: boolean;
            serial: string;
        };
        result: {
            reason: string;
            renewals?: string[];
            revoked_at: number;
            serial: string;
            status: string;
        };
    };
    /** Make a claim token, with which a device gets one certificate by itself. */
    "cert.token.create": {
        params: {
            agent_id?: string;
            authority?: "operator" | "appstore" | "enterprise";
            operator_id?: string;
            purpose?: string;
            role?: string;
            roles?: string[];
            scene_types?: string[];
            skill_id?: string;
            space_id?: string;
            ttl_seconds?: number;
            validity_seconds?: number;
        };
        result: {
            expires_at: number;
            token: string;
            token_id: string;
        };
    };
    /** Take a namespace of commands, which the bridge then forwards to an agent. */
    "command.register": {
        params: {
            agent_id: string;
            commands: ({
                effect?: "read" | "write" | "act";
                name: string;
                params_schema?: Record<string, unknown>;
                result_schema?: Record<string, unknown>;
                summary: string;
            })[];
            namespace: string;
        };
        result: {
            agent_id: string;
            commands: string[];
            namespace: string;
            revision: number;
        };
    };
    /** Give a namespace of commands back. */
    "command.unregister": {
        params: {
            namespace: string;
        };
        result: {
            namespace: string;
        };
    };
    /** Cancel a delayed message before it is published. */
    "delayed.cancel": {
        params: {
            message_id: string;
        };
        result: {
            bytes: number;
            client_id: string;
            due_at: number;
            message_id: string;
            principal: string;
            qos: number;
            retain?: boolean;
            space_id: string;
            topic: string;
        };
    };
    /** List the delayed messages that wait, what is due first at the front. */
    "delayed.list": {
        params: {
            client_id?: string;
            cursor?: string;
            find?: string;
            limit?: number;
            principal?: string;
            sort?: "id" | "-id" | "due_at" | "-due_at" | "topic" | "-topic" | "principal" | "-principal" | "bytes" | "-bytes";
            space_id?: string;
        };
        result: {
            messages: {
                bytes: number;
                client_id: string;
                due_at: number;
                message_id: string;
                principal: string;
                qos: number;
                retain?: boolean;
                space_id: string;
                topic: string;
            }[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Follow what happens: agents that come and go, tasks, approvals, workflows, Caps, scenes. */
    "event.follow": {
        params: {
            after?: string;
            families?: string[];
            stream?: boolean;
        };
        result: {
            cursor: string;
            events?: {
                cursor: string;
                event: unknown;
                family: string;
                topic: string;
            }[];
            missed?: boolean;
        };
    };
    /** Get a value that the members of a group share. */
    "group.data.get": {
        params: {
            cap_id: string;
            data_key: string;
            group_id: string;
        };
        result: {
            cap_id: string;
            data_key: string;
            data_type: string;
            data_value: unknown;
            group_id: string;
            revision: number;
            updated_at: number;
            updated_by: string;
        };
    };
    /** List the values that the members of a group share, and what they were since the bridge started. */
    "group.data.list": {
        params: {
            cap_id: string;
            cursor?: string;
            find?: string;
            group_id: string;
            history?: boolean;
            limit?: number;
            sort?: "id" | "-id" | "updated_at" | "-updated_at" | "updated_by" | "-updated_by";
        };
        result: {
            next_cursor?: string;
            total: number;
            values: {
                data_key: string;
                data_type: string;
                data_value?: unknown;
                history?: {
                    data_value?: unknown;
                    updated_at: number;
                    updated_by: string;
                }[];
                revision: number;
                size: number;
                updated_at: number;
                updated_by: string;
            }[];
        };
    };
    /** Set a value that the members of a group share. */
    "group.data.set": {
        params: {
            cap_id: string;
            data_key: string;
            data_type: "string" | "number" | "integer" | "float" | "boolean" | "object" | "array" | "json" | "binary";
            data_value: unknown;
            group_id: string;
            revision?: number;
        };
        result: {
            cap_id: string;
            data_key: string;
            data_type: string;
            data_value: unknown;
            group_id: string;
            revision: number;
        };
    };
    /** Save a selector as a group, whose members are whoever it chooses at the time. */
    "group.declare": {
        params: {
            cap_id: string;
            group_id: string;
            selector: string;
        };
        result: {
            cap_id: string;
            group_id: string;
            revision: number;
            selected: number;
            selector: string;
        };
    };
    /** Have the members of a group do something, and gather what they answer as a task. */
    "group.dispatch": {
        params: {
            abort?: ({
                after: number;
                on: "failed" | "rejected" | "timed_out" | "any";
                percent: number;
            })[];
            cap_id: string;
            capability_id: string;
            completion?: "all" | "quorum" | "first" | "deadline" | {
                n?: number;
                policy: "all" | "quorum" | "first" | "deadline";
            };
            continuous?: boolean;
            deadline_ms?: number;
            group_id: string;
            params?: Record<string, unknown>;
            retry?: {
                attempts: number;
                backoff_ms?: number;
                on: ("failed" | "rejected" | "timed_out")[];
            };
            rollout?: {
                canary?: {
                    count: number;
                    success_percent?: number;
                    then_wait_for: "success" | "approval";
                };
                exponential?: {
                    base: number;
                    factor: number;
                    on_success: number;
                };
                max_in_progress?: number;
                rate_per_minute?: number;
            };
            schedule_at?: string;
            target?: {
                attributes?: Record<string, string>;
                online_only?: boolean;
                role?: string;
                skill_ids?: string[];
            };
            valid_until?: string;
            window?: {
                cron: string;
                duration_ms: number;
                timezone?: string;
            };
        };
        result: {
            members: number;
            roster: ({
                role: string;
                skill_id: string;
                state: "pending" | "offline" | "denied" | "failed";
            })[];
            task_id: string;
        };
    };
    /** Link one member of a group to another. */
    "group.link.add": {
        params: {
            cap_id: string;
            group_id: string;
            link_type: string;
            source_skill_id: string;
            target_skill_id: string;
        };
        result: {
            cap_id: string;
            group_id: string;
            link_type: string;
            revision: number;
            source_skill_id: string;
            target_skill_id: string;
        };
    };
    /** Remove the link from one member of a group to another. */
    "group.link.remove": {
        params: {
            cap_id: string;
            group_id: string;
            source_skill_id: string;
            target_skill_id: string;
        };
        result: {
            cap_id: string;
            group_id: string;
            link_type: string;
            revision: number;
            source_skill_id: string;
            target_skill_id: string;
        };
    };
    /** List the groups that the caller takes part in, or whose Cap it owns. */
    "group.list": {
        params: {
            cap_id?: string;
            cursor?: string;
            find?: string;
            limit?: number;
            sort?: "id" | "-id" | "members" | "-members" | "born_at" | "-born_at";
        };
        result: {
            groups: {
                born_at: number;
                cap_id: string;
                data: number;
                group_id: string;
                links: number;
                members: number;
                online: number;
                selector?: string;
            }[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Add a skill to a group; the first member makes the group. */
    "group.member.add": {
        params: {
            attributes?: Record<string, string>;
            cap_id: string;
            group_id: string;
            role: string;
            skill_id: string;
        };
        result: {
            cap_id: string;
            group_id: string;
            revision: number;
            role: string;
            skill_id: string;
        };
    };
    /** Take a skill out of a group; the group ends with its last member. */
    "group.member.remove": {
        params: {
            cap_id: string;
            group_id: string;
            skill_id: string;
        };
        result: {
            cap_id: string;
            group_id: string;
            revision: number;
            role: string;
            skill_id: string;
        };
    };
    /** Change the role or the attributes of a member. */
    "group.member.update": {
        params: {
            attributes?: Record<string, string>;
            cap_id: string;
            group_id: string;
            role?: string;
            skill_id: string;
        };
        result: {
            cap_id: string;
            group_id: string;
            revision: number;
            role: string;
            skill_id: string;
        };
    };
    /** Show a group: its members and whether they are there, its links, the names of its data. */
    "group.query": {
        params: {
            cap_id: string;
            group_id: string;
        };
        result: {
            born_at: number;
            cap_id: string;
            data: {
                data_key: string;
                data_type: string;
                revision: number;
                updated_at: number;
            }[];
            group_id: string;
            links: {
                link_type: string;
                source_skill_id: string;
                target_skill_id: string;
            }[];
            members: ({
                attributes?: Record<string, string>;
                joined_at: number;
                role: string;
                skill_id: string;
                status: "online" | "offline";
            })[];
            revision: number;
            selected?: number;
            selector?: string;
        };
    };
    /** Remove a group with its members, links and data. */
    "group.remove": {
        params: {
            cap_id: string;
            group_id: string;
        };
        result: {
            cap_id: string;
            group_id: string;
        };
    };
    /** List the members of a rollout and how far each has come. */
    "group.rollout.members": {
        params: {
            cursor?: string;
            limit?: number;
            state?: "queued" | "in_progress" | "succeeded" | "failed" | "rejected" | "timed_out" | "removed" | "cancelled";
            task_id: string;
        };
        result: {
            members: ({
                agent_id?: string;
                at?: number;
                attempts?: number;
                data?: unknown;
                data_dropped?: boolean;
                error?: {
                    code: string;
                    message: string;
                };
                not_before?: number;
                skill_id: string;
                state: "queued" | "in_progress" | "succeeded" | "failed" | "rejected" | "timed_out" | "removed" | "cancelled";
            })[];
            next_cursor?: string;
        };
    };
    /** Have a rollout ask nobody else until it is resumed; who was asked may finish. */
    "group.rollout.pause": {
        params: {
            reason?: string;
            task_id: string;
        };
        result: {
            state: "pending" | "running" | "waiting" | "paused" | "aborted" | "complete" | "partial" | "failed" | "cancelled";
            task_id: string;
        };
    };
    /** Go on with a rollout that is paused or has stopped by itself. */
    "group.rollout.resume": {
        params: {
            task_id: string;
        };
        result: {
            state: "pending" | "running" | "waiting" | "paused" | "aborted" | "complete" | "partial" | "failed" | "cancelled";
            task_id: string;
        };
    };
    /** Have a rollout ask members again that failed, also when it has ended. */
    "group.rollout.retry": {
        params: {
            states?: ("failed" | "rejected" | "timed_out")[];
            task_id: string;
            valid_until?: string;
        };
        result: {
            state: "pending" | "running" | "waiting" | "paused" | "aborted" | "complete" | "partial" | "failed" | "cancelled";
            task_id: string;
        };
    };
    /** Make an API key. Its secret is shown once, in the answer. */
    "key.create": {
        params: {
            allow_unknown?: boolean;
            expires_in?: number;
            kind?: "operator" | "agent" | "skill";
            llm?: {
                cost?: number;
                models?: string[];
                requests?: number;
                requests_per_minute?: number;
                tokens?: number;
                window?: "hour" | "day" | "month";
            };
            name?: string;
            principal_id: string;
            roles?: string[];
            s3?: boolean;
            scopes?: string[];
            space_id?: string;
        };
        result: {
            created_at: number;
            created_by?: string;
            expires_at?: number;
            key: string;
            key_id: string;
            kind: string;
            last_use_at?: number;
            llm?: {
                cost?: number;
                models?: string[];
                requests?: number;
                requests_per_minute?: number;
                tokens?: number;
                window?: "hour" | "day" | "month";
            };
            name?: string;
            principal_id: string;
            reason?: string;
            revoked_at?: number;
            roles: string[];
            s3?: boolean;
            s3_access_key_id?: string;
            s3_secret_access_key?: string;
            scopes: string[];
            space_id: string;
            state: string;
        };
    };
    /** List the API keys of a space, without their secrets. */
    "key.list": {
        params: {
            cursor?: string;
            limit?: number;
            principal_id?: string;
            space_id?: string;
            state?: "live" | "expired" | "revoked";
        };
        result: {
            keys: ({
                created_at: number;
                created_by?: string;
                expires_at?: number;
                key_id: string;
                kind: string;
                last_use_at?: number;
                llm?: {
                    cost?: number;
                    models?: string[];
                    requests?: number;
                    requests_per_minute?: number;
                    tokens?: number;
                    window?: "hour" | "day" | "month";
                };
                name?: string;
                principal_id: string;
                reason?: string;
                revoked_at?: number;
                roles: string[];
                s3?: boolean;
                scopes: string[];
                space_id: string;
                state: string;
            })[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Revoke an API key, and disconnect who came in with it. */
    "key.revoke": {
        params: {
            key_id: string;
            reason?: string;
            space_id?: string;
        };
        result: {
            created_at: number;
            created_by?: string;
            expires_at?: number;
            key_id: string;
            kind: string;
            last_use_at?: number;
            llm?: {
                cost?: number;
                models?: string[];
                requests?: number;
                requests_per_minute?: number;
                tokens?: number;
                window?: "hour" | "day" | "month";
            };
            name?: string;
            principal_id: string;
            reason?: string;
            revoked_at?: number;
            roles: string[];
            s3?: boolean;
            scopes: string[];
            space_id: string;
            state: string;
        };
    };
    /** Show a link to another MQTT broker: what it carries, what waits, and what was refused. */
    "link.get": {
        params: {
            link: string;
        };
        result: {
            bridge_id: string;
            client_id: string;
            counts: {
                direction: string;
                messages: number;
                outcome: string;
            }[];
            dropped: number;
            in: {
                local?: string;
                qos: number;
                remote?: string;
                topic: string;
            }[];
            inflight: number;
            link: string;
            lost: number;
            out: {
                local?: string;
                qos: number;
                remote?: string;
                topic: string;
            }[];
            principal?: string;
            problem?: string;
            queued: number;
            queued_bytes: number;
            refused: string[];
            remote_client_id: string;
            since: number;
            space_id?: string;
            state: string;
            url: string;
            version: string;
            waiting: number;
        };
    };
    /** List the links to other MQTT brokers, and how they are. */
    "link.list": {
        params: {
            cursor?: string;
            limit?: number;
            sort?: "id" | "-id" | "waiting" | "-waiting" | "lost" | "-lost";
        };
        result: {
            links: {
                bridge_id: string;
                dropped: number;
                link: string;
                lost: number;
                problem?: string;
                since: number;
                space_id?: string;
                state: string;
                url: string;
                waiting: number;
            }[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Ask a language model of one's choice. */
    "llm.advanced-query": {
        params: {
            approval_expires_ms?: number;
            approval_wait_ms?: number;
            async?: boolean;
            max_tool_rounds?: number;
            options?: {
                format?: unknown;
                max_tokens?: number;
                model?: string;
                reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high";
                seed?: number;
                stop?: string[];
                temperature?: number;
                top_p?: number;
            };
            parameters?: {
                messages?: Record<string, unknown>[];
                segments?: Record<string, unknown>[];
                system?: string;
            };
            query: string;
            skill_id?: string;
            stream?: boolean;
            tools?: string[];
        };
        result: {
            cost?: number;
            execution_time: number;
            finish_detail?: string;
            finish_reason: "end_turn" | "tool_use" | "max_tokens" | "refused" | "error" | "waiting";
            from: "provider" | "cache" | "flight";
            model: string;
            result: string;
            segments: {
                data?: string;
                mimeType?: string;
                opaque?: {
                    data: unknown;
                    origin: string;
                };
                text?: string;
                toolCall?: {
                    args: unknown;
                    id: string;
                    name: string;
                    raw?: string;
                };
                type: string;
                ui?: unknown;
            }[];
            tokens_used: number;
            tools?: {
                calls: ({
                    arguments?: unknown;
                    call_id: string;
                    code?: string;
                    elapsed_ms: number;
                    name: string;
                    status: "Success" | "Failed" | "Skipped";
                    text: string;
                    warning?: string;
                })[];
                detail?: string;
                elapsed_ms: number;
                failed: number;
                notices?: string[];
                rounds: number;
                skipped: number;
                stop?: "rounds" | "calls" | "tokens" | "time" | "ask_user" | "halted" | "fatal";
                success: number;
            };
            usage: {
                cache_write_tokens?: number;
                cached_tokens?: number;
                estimated?: boolean;
                input_tokens: number;
                output_tokens: number;
                reasoning_tokens?: number;
            };
            waiting?: {
                approval_id: string;
                expires_at: number;
                task_id: string;
                tool: string;
                why: string;
            };
        };
    };
    /** Lend a site a part of the budgets that bound its principal, and book what it has spent; for sites. A loan is booked once, however often it is told: all amounts are counted from its beginning. */
    "llm.budget.lend": {
        params: {
            account: string;
            busy?: {
                cost: number;
                requests: number;
                tokens: number;
            };
            done?: boolean;
            need?: {
                cost: number;
                requests: number;
                tokens: number;
            };
            number: number;
            since?: number;
            site: string;
            used?: {
                cost: number;
                requests: number;
                tokens: number;
            };
            wish?: {
                cost: number;
                requests: number;
                tokens: number;
            };
        };
        result: {
            held: {
                cost?: number;
                requests?: number;
                tokens?: number;
            };
            life_ms: number;
            short?: boolean;
            since: number;
        };
    };
    /** List the budgets for language models: what is spent and left, and when each begins anew; those used up most first. */
    "llm.budget.list": {
        params: Record<string, unknown>;
        result: {
            budgets: ({
                limits: ({
                    left: number;
                    limit: number;
                    of: "tokens" | "cost" | "requests";
                    reserved: number;
                    spent: number;
                    spent_here?: number;
                })[];
                owner: string;
                owner_kind?: string;
                per: "principal" | "key" | "space";
                percent: number;
                resets_at: number;
                since: number;
                space_id: string;
                window: "hour" | "day" | "month";
            })[];
            total: number;
        };
    };
    /** Say something in a conversation with a model that may use tools, or run a tool oneself by a slash command. */
    "llm.chat": {
        params: {
            approval_expires_ms?: number;
            approval_wait_ms?: number;
            async?: boolean;
            literal?: boolean;
            max_tool_rounds?: number;
            message: string;
            model?: string;
            session_id?: string;
            skill_id?: string;
            stream?: boolean;
            system?: string;
            tools?: string[];
        };
        result: {
            by: "model" | "command";
            cost?: number;
            ended?: boolean;
            execution_time: number;
            finish_detail?: string;
            finish_reason?: "end_turn" | "tool_use" | "max_tokens" | "refused" | "error" | "waiting";
            model?: string;
            result: string;
            segments?: {
                data?: string;
                mimeType?: string;
                opaque?: {
                    data: unknown;
                    origin: string;
                };
                text?: string;
                toolCall?: {
                    args: unknown;
                    id: string;
                    name: string;
                    raw?: string;
                };
                type: string;
                ui?: unknown;
            }[];
            session_id: string;
            tokens_used: number;
            tools?: {
                calls: ({
                    arguments?: unknown;
                    call_id: string;
                    code?: string;
                    elapsed_ms: number;
                    name: string;
                    status: "Success" | "Failed" | "Skipped";
                    text: string;
                    warning?: string;
                })[];
                detail?: string;
                elapsed_ms: number;
                failed: number;
                notices?: string[];
                rounds: number;
                skipped: number;
                stop?: "rounds" | "calls" | "tokens" | "time" | "ask_user" | "halted" | "fatal";
                success: number;
            };
            turns: number;
            usage?: {
                cache_write_tokens?: number;
                cached_tokens?: number;
                estimated?: boolean;
                input_tokens: number;
                output_tokens: number;
                reasoning_tokens?: number;
            };
            waiting?: {
                approval_id: string;
                expires_at: number;
                task_id: string;
                tool: string;
                why: string;
            };
        };
    };
    /** Show one of the caller's conversations, with what was said as far as the model is shown it. */
    "llm.conversation.get": {
        params: {
            session_id: string;
        };
        result: {
            active_at: number;
            answering?: boolean;
            began_at: number;
            cost: number;
            ends_at: number;
            locked?: string;
            messages: unknown[];
            model?: string;
            session_id: string;
            skill_id?: string;
            system?: string;
            title?: string;
            tokens: number;
            tools: string[];
            turns: number;
        };
    };
    /** List the caller's conversations, the one spoken in last first. */
    "llm.conversation.list": {
        params: {
            cursor?: string;
            find?: string;
            limit?: number;
            sort?: "id" | "-id" | "active_at" | "-active_at" | "began_at" | "-began_at" | "turns" | "-turns" | "tokens" | "-tokens" | "cost" | "-cost";
        };
        result: {
            conversations: {
                active_at: number;
                answering?: boolean;
                began_at: number;
                cost: number;
                ends_at: number;
                locked?: string;
                model?: string;
                session_id: string;
                skill_id?: string;
                system?: string;
                title?: string;
                tokens: number;
                tools: string[];
                turns: number;
            }[];
            next_cursor?: string;
            total: number;
        };
    };
    /** List the language models that may be asked. */
    "llm.models": {
        params: Record<string, unknown>;
        result: {
            models: ({
                aliases: string[];
                default: boolean;
                id: string;
                max_tokens?: number;
                name: string;
                status: "available" | "degraded" | "unavailable";
                version: string;
            })[];
        };
    };
    /** Ask the default language model. */
    "llm.query": {
        params: {
            approval_expires_ms?: number;
            approval_wait_ms?: number;
            async?: boolean;
            max_tool_rounds?: number;
            parameters?: {
                messages?: Record<string, unknown>[];
                segments?: Record<string, unknown>[];
                system?: string;
            };
            query: string;
            skill_id?: string;
            stream?: boolean;
            tools?: string[];
        };
        result: {
            cost?: number;
            execution_time: number;
            finish_detail?: string;
            finish_reason: "end_turn" | "tool_use" | "max_tokens" | "refused" | "error" | "waiting";
            from: "provider" | "cache" | "flight";
            model: string;
            result: string;
            segments: {
                data?: string;
                mimeType?: string;
                opaque?: {
                    data: unknown;
                    origin: string;
                };
                text?: string;
                toolCall?: {
                    args: unknown;
                    id: string;
                    name: string;
                    raw?: string;
                };
                type: string;
                ui?: unknown;
            }[];
            tokens_used: number;
            tools?: {
                calls: ({
                    arguments?: unknown;
                    call_id: string;
                    code?: string;
                    elapsed_ms: number;
                    name: string;
                    status: "Success" | "Failed" | "Skipped";
                    text: string;
                    warning?: string;
                })[];
                detail?: string;
                elapsed_ms: number;
                failed: number;
                notices?: string[];
                rounds: number;
                skipped: number;
                stop?: "rounds" | "calls" | "tokens" | "time" | "ask_user" | "halted" | "fatal";
                success: number;
            };
            usage: {
                cache_write_tokens?: number;
                cached_tokens?: number;
                estimated?: boolean;
                input_tokens: number;
                output_tokens: number;
                reasoning_tokens?: number;
            };
            waiting?: {
                approval_id: string;
                expires_at: number;
                task_id: string;
                tool: string;
                why: string;
            };
        };
    };
    /** Stop a run; it can be continued later. */
    "llm.run.cancel": {
        params: {
            run_id: string;
        };
        result: {
            agent?: string;
            autopilot?: boolean;
            changed_at: number;
            cost: number;
            message?: string;
            mode: "run" | "agent" | "chat";
            model?: string;
            package?: string;
            phase: "Running" | "WaitingUser" | "WaitingApproval" | "Completed" | "Failed";
            principal: string;
            project: string;
            questions?: {
                call_id: string;
                options?: string[];
                question: string;
            }[];
            reason?: string;
            run_id: string;
            space_id: string;
            started_at: number;
            stop_reason?: string;
            tokens: number;
            trace_id?: string;
            turns: number;
            waiting?: {
                approval_id: string;
                expires_at: number;
                task_id: string;
                tool: string;
                why: string;
            };
            workflow?: string;
        };
    };
    /** Answer a run that waits, or have one go on that failed. */
    "llm.run.continue": {
        params: {
            input?: string;
            run_id: string;
        };
        result: {
            agent?: string;
            autopilot?: boolean;
            changed_at: number;
            cost: number;
            message?: string;
            mode: "run" | "agent" | "chat";
            model?: string;
            package?: string;
            phase: "Running" | "WaitingUser" | "WaitingApproval" | "Completed" | "Failed";
            principal: string;
            project: string;
            questions?: {
                call_id: string;
                options?: string[];
                question: string;
            }[];
            reason?: string;
            run_id: string;
            space_id: string;
            started_at: number;
            stop_reason?: string;
            tokens: number;
            trace_id?: string;
            turns: number;
            waiting?: {
                approval_id: string;
                expires_at: number;
                task_id: string;
                tool: string;
                why: string;
            };
            workflow?: string;
        };
    };
    /** Check a workflow package and keep it for runs. */
    "llm.run.import": {
        params: {
            async?: boolean;
            content?: string;
            group_name?: string;
            path?: string;
            replace?: boolean;
        };
        result: {
            agents: {
                agent_id: string;
                icon?: string;
                name: string;
                title: string;
            }[];
            author?: string;
            bytes: number;
            description?: string;
            imported_at: number;
            imported_by: string;
            name: string;
            sha256: string;
            version: string;
            warnings?: string[];
            workflows: {
                description?: string;
                name?: string;
                steps: number;
                workflow_id: string;
            }[];
        };
    };
    /** List runs, the latest first. */
    "llm.run.list": {
        params: {
            cursor?: string;
            find?: string;
            limit?: number;
            mode?: "run" | "agent" | "chat";
            package?: string;
            phase?: "Running" | "WaitingUser" | "WaitingApproval" | "Completed" | "Failed";
            principal?: string;
            sort?: "id" | "-id" | "package" | "-package" | "phase" | "-phase" | "principal" | "-principal" | "turns" | "-turns" | "tokens" | "-tokens" | "cost" | "-cost" | "changed_at" | "-changed_at";
            workflow?: string;
        };
        result: {
            next_cursor?: string;
            runs: ({
                agent?: string;
                autopilot?: boolean;
                changed_at: number;
                cost: number;
                message?: string;
                mode: "run" | "agent" | "chat";
                model?: string;
                package?: string;
                phase: "Running" | "WaitingUser" | "WaitingApproval" | "Completed" | "Failed";
                principal: string;
                project: string;
                questions?: {
                    call_id: string;
                    options?: string[];
                    question: string;
                }[];
                reason?: string;
                run_id: string;
                space_id: string;
                started_at: number;
                stop_reason?: string;
                tokens: number;
                trace_id?: string;
                turns: number;
                waiting?: {
                    approval_id: string;
                    expires_at: number;
                    task_id: string;
                    tool: string;
                    why: string;
                };
                workflow?: string;
            })[];
            total: number;
        };
    };
    /** List the workflow packages of the caller's space. */
    "llm.run.packages": {
        params: {
            cursor?: string;
            limit?: number;
            name?: string;
        };
        result: {
            next_cursor?: string;
            packages: {
                agents: {
                    agent_id: string;
                    icon?: string;
                    name: string;
                    title: string;
                }[];
                author?: string;
                bytes: number;
                description?: string;
                imported_at: number;
                imported_by: string;
                name: string;
                sha256: string;
                version: string;
                warnings?: string[];
                workflows: {
                    description?: string;
                    name?: string;
                    steps: number;
                    workflow_id: string;
                }[];
            }[];
            total: number;
        };
    };
    /** Start a workflow, or a conversation with an agent or a model. */
    "llm.run.start": {
        params: {
            agent?: string;
            approval_expires_ms?: number;
            autopilot?: boolean;
            deltas?: boolean;
            input?: string;
            max_turns?: number;
            mode?: "run" | "agent" | "chat";
            model?: string;
            package?: string;
            project?: string;
            skill_id?: string;
            tools?: string[];
            variables?: Record<string, unknown>;
            workflow?: string;
        };
        result: {
            agent?: string;
            autopilot?: boolean;
            changed_at: number;
            cost: number;
            message?: string;
            mode: "run" | "agent" | "chat";
            model?: string;
            package?: string;
            phase: "Running" | "WaitingUser" | "WaitingApproval" | "Completed" | "Failed";
            principal: string;
            project: string;
            questions?: {
                call_id: string;
                options?: string[];
                question: string;
            }[];
            reason?: string;
            run_id: string;
            space_id: string;
            started_at: number;
            stop_reason?: string;
            tokens: number;
            trace_id?: string;
            turns: number;
            waiting?: {
                approval_id: string;
                expires_at: number;
                task_id: string;
                tool: string;
                why: string;
            };
            workflow?: string;
        };
    };
    /** Show a run and where it is. */
    "llm.run.status": {
        params: {
            graph?: boolean;
            run_id: string;
            wait_ms?: number;
        };
        result: {
            agent?: string;
            allowed_next?: {
                condition_text?: string;
                is_default?: boolean;
                label: string;
                to: string;
            }[];
            artifacts?: string[];
            autopilot?: boolean;
            changed_at: number;
            cost: number;
            current_node_id?: string;
            decision_log?: {
                decidedAt?: string;
                from: string;
                label: string;
                reason?: string;
                to: string;
            }[];
            graph?: {
                edges: {
                    condition_text?: string;
                    from: string;
                    is_default?: boolean;
                    label: string;
                    to: string;
                }[];
                entry_node_id: string;
                nodes: {
                    agent_id?: string;
                    description?: string;
                    id: string;
                    title?: string;
                    type: string;
                }[];
            };
            message?: string;
            mode: "run" | "agent" | "chat";
            model?: string;
            package?: string;
            phase: "Running" | "WaitingUser" | "WaitingApproval" | "Completed" | "Failed";
            principal: string;
            project: string;
            questions?: {
                call_id: string;
                options?: string[];
                question: string;
            }[];
            reason?: string;
            run_id: string;
            space_id: string;
            started_at: number;
            state_error?: string;
            steps_completed?: string[];
            stop_reason?: string;
            tokens: number;
            trace_id?: string;
            turns: number;
            variables?: Record<string, unknown>;
            waiting?: {
                approval_id: string;
                expires_at: number;
                task_id: string;
                tool: string;
                why: string;
            };
            workflow?: string;
        };
    };
    /** Show when a run asked its model and ran tools, how long each took and what it cost, without what was said. */
    "llm.run.trace": {
        params: {
            after?: number;
            limit?: number;
            run_id: string;
        };
        result: {
            next_after?: number;
            spans: ({
                about?: string;
                at: number;
                call_id?: string;
                code?: string;
                cost?: number;
                id: string;
                input_tokens?: number;
                kind: "model" | "tool";
                name?: string;
                node_id?: string;
                output_tokens?: number;
                parent?: string;
                provider?: string;
                replayed?: boolean;
                state: "running" | "ok" | "failed" | "unknown";
                took_ms: number;
            })[];
            turns: number;
        };
    };
    /** Show what a run's model was asked, what it answered, and what its calls came to. */
    "llm.run.turns": {
        params: {
            after?: number;
            limit?: number;
            run_id: string;
        };
        result: {
            next_after?: number;
            total: number;
            turns: ({
                at: string;
                id: string;
                nodeId?: string;
                phaseBefore: "Running" | "WaitingUser" | "WaitingApproval" | "Completed" | "Failed";
                request: {
                    messages: unknown[];
                    tools: unknown[];
                };
                response: {
                    assistant: unknown;
                    cost?: number;
                    durationMs: number;
                    finishReason?: string;
                    model?: string;
                    provider?: string;
                    segments: {
                        data?: string;
                        mimeType?: string;
                        opaque?: {
                            data: unknown;
                            origin: string;
                        };
                        text?: string;
                        toolCall?: {
                            args: unknown;
                            id: string;
                            name: string;
                            raw?: string;
                        };
                        type: string;
                        ui?: unknown;
                    }[];
                    usage: {
                        cache_write_tokens?: number;
                        cached_tokens?: number;
                        estimated?: boolean;
                        input_tokens: number;
                        output_tokens: number;
                        reasoning_tokens?: number;
                    };
                };
                toolRuns?: {
                    args: unknown;
                    at?: string;
                    durationMs: number;
                    replayed?: boolean;
                    result: unknown;
                    toolCallId: string;
                    toolName: string;
                    warning?: string;
                }[];
                uiAfter?: {
                    phase: "Running" | "WaitingUser" | "WaitingApproval" | "Completed" | "Failed";
                    stopReason?: string;
                };
            })[];
        };
    };
    /** Show what was spent on language models: requests, tokens and cost, by principal, model, provider, skill, run, day and bridge. */
    "llm.spend": {
        params: {
            by?: ("day" | "space" | "principal" | "model" | "provider" | "skill" | "run" | "bridge")[];
            cursor?: string;
            limit?: number;
            model?: string;
            principal?: string;
            provider?: string;
            run_id?: string;
            since?: string;
            skill_id?: string;
            sort?: "day" | "-day" | "principal" | "-principal" | "model" | "-model" | "provider" | "-provider" | "requests" | "-requests" | "tokens" | "-tokens" | "cost" | "-cost";
            until?: string;
        };
        result: {
            kept_since: string;
            next_cursor?: string;
            rows: {
                bridge_id?: string;
                cached_tokens: number;
                cost: number;
                day?: string;
                input_tokens: number;
                model?: string;
                output_tokens: number;
                principal?: string;
                principal_kind?: string;
                provider?: string;
                repeated: number;
                requests: number;
                run_id?: string;
                skill_id?: string;
                space_id?: string;
                tokens: number;
            }[];
            sum: {
                cached_tokens: number;
                cost: number;
                input_tokens: number;
                output_tokens: number;
                repeated: number;
                requests: number;
                tokens: number;
            };
            total: number;
        };
    };
    /** Say how the language models fare. */
    "llm.status": {
        params: Record<string, unknown>;
        result: {
            active_requests: number;
            cache?: {
                answers: number;
                bytes: number;
                limit_bytes: number;
                shared: boolean;
                ttl_ms: number;
            };
            others?: ({
                active_requests: number;
                bridge_id: string;
                providers: ({
                    active_requests: number;
                    breaker: "closed" | "open" | "half-open";
                    concurrency: number;
                    last_error?: string;
                    latency?: {
                        answers: number;
                        first_p50_ms: number;
                        first_p99_ms: number;
                        whole_p50_ms: number;
                        whole_p99_ms: number;
                    };
                    models: string[];
                    name: string;
                    retry_after_ms?: number;
                    wire: string;
                })[];
                revision: number;
                status: "available" | "degraded" | "unavailable" | "unconfigured" | "silent";
            })[];
            providers: ({
                active_requests: number;
                breaker: "closed" | "open" | "half-open";
                concurrency: number;
                last_error?: string;
                latency?: {
                    answers: number;
                    first_p50_ms: number;
                    first_p99_ms: number;
                    whole_p50_ms: number;
                    whole_p99_ms: number;
                };
                models: string[];
                name: string;
                retry_after_ms?: number;
                wire: string;
            })[];
            revision: number;
            status: "available" | "degraded" | "unavailable" | "unconfigured";
            uptime: number;
        };
    };
    /** Have an external MCP server propose values for an argument of a prompt, or of a template of resources. */
    "mcp.argument.complete": {
        params: {
            argument: string;
            given?: Record<string, string>;
            prompt?: string;
            server: string;
            uri_template?: string;
            value?: string;
        };
        result: {
            more?: boolean;
            server: string;
            untrusted: boolean;
            values: string[];
        };
    };
    /** Get an approved prompt of an external MCP server. */
    "mcp.prompt.get": {
        params: {
            arguments?: Record<string, unknown>;
            prompt: string;
            server: string;
        };
        result: {
            description?: string;
            messages: ({
                content: {
                    data?: string;
                    kind: "text" | "image" | "audio" | "video" | "resource" | "resource_link";
                    mime_type?: string;
                    name?: string;
                    text?: string;
                    uri?: string;
                };
                role: "user" | "assistant";
            })[];
            prompt: string;
            server: string;
            untrusted: boolean;
        };
    };
    /** List the approved prompts of external MCP servers that the caller may get. */
    "mcp.prompt.list": {
        params: {
            server?: string;
        };
        result: {
            prompts: {
                arguments?: {
                    description?: string;
                    name: string;
                    required: boolean;
                }[];
                description?: string;
                prompt: string;
                server: string;
                title?: string;
            }[];
            total: number;
        };
    };
    /** List the resources of external MCP servers that the caller may read. */
    "mcp.resource.list": {
        params: {
            cursor?: string;
            limit?: number;
            server?: string;
        };
        result: {
            next_cursor?: string;
            resources: {
                description?: string;
                mime_type?: string;
                name?: string;
                server: string;
                size?: number;
                uri: string;
            }[];
            templates: {
                description?: string;
                mime_type?: string;
                name?: string;
                server: string;
                uri_template: string;
            }[];
            total: number;
        };
    };
    /** Read a resource of an external MCP server. */
    "mcp.resource.read": {
        params: {
            server: string;
            uri: string;
        };
        result: {
            contents: ({
                data?: string;
                kind: "text" | "image" | "audio" | "video" | "resource" | "resource_link";
                mime_type?: string;
                name?: string;
                text?: string;
                uri?: string;
            })[];
            server: string;
            untrusted: boolean;
            uri: string;
        };
    };
    /** Approve tools, prompts and resources of an external MCP server as they are now, so that they are offered. */
    "mcp.server.approve": {
        params: {
            prompts?: string[];
            resources?: boolean;
            revision: string;
            server: string;
            templates?: string[];
            tools?: string[];
        };
        result: {
            approved: string[];
            prompts: string[];
            resources: boolean;
            server: string;
            templates: string[];
        };
    };
    /** List the external MCP servers that the bridge uses, and what those have. */
    "mcp.server.list": {
        params: {
            server?: string;
        };
        result: {
            servers: {
                device?: {
                    clients: string[];
                    owner: string;
                };
                problem?: string;
                product?: string;
                prompts: {
                    description?: string;
                    prompt: string;
                    state: string;
                }[];
                resources: {
                    state: string;
                    total: number;
                };
                revision?: string;
                server: string;
                since: number;
                state: string;
                templates: {
                    description?: string;
                    state: string;
                    uri_template: string;
                }[];
                tools: {
                    description?: string;
                    state: string;
                    tool: string;
                }[];
            }[];
            total: number;
        };
    };
    /** Call a tool of an external MCP server. */
    "mcp.tool.call": {
        params: {
            arguments?: Record<string, unknown>;
            server: string;
            tool: string;
        };
        result: {
            content?: ({
                data?: string;
                kind: "text" | "image" | "audio" | "video" | "resource" | "resource_link";
                mime_type?: string;
                name?: string;
                text?: string;
                uri?: string;
            })[];
            data?: unknown;
            forms?: number;
            is_error: boolean;
            media?: {
                data: string;
                kind: string;
                mime_type: string;
            }[];
            sampled?: {
                refused?: number;
                requests: number;
                tokens: number;
            };
            server: string;
            text: string;
            tool: string;
        };
    };
    /** Say whether somebody may do something, which policy decided, and why. */
    "policy.explain": {
        params: {
            action: string;
            address?: string;
            door?: "mqtt" | "http" | "ws";
            principal?: {
                attributes?: Record<string, string>;
                cert_sn?: string;
                id: string;
                kind?: "operator" | "agent" | "skill";
                method?: "anonymous" | "apikey" | "jwt" | "certificate";
                roles?: string[];
                scopes?: string[];
                space_id?: string;
            };
            resource?: {
                id?: string;
                space_id?: string;
                type: string;
            };
            sender_id?: string;
            trial?: boolean;
        };
        result: {
            action: string;
            asked: number;
            decision: "allow" | "deny";
            failed?: {
                error: string;
                id: string;
            }[];
            policies: ({
                effect: "permit" | "forbid";
                from: "shipped" | "file" | "stored" | "trial";
                id: string;
                line: number;
                text: string;
                why?: string;
            })[];
            principal: string;
            reason: string;
            resource: string;
            roles: string[];
            space_id: string;
        };
    };
    /** Show policies: those of the bridge, of a file, or put by policy.put. */
    "policy.get": {
        params: {
            name: string;
        };
        result: {
            broken?: string;
            from: "shipped" | "file" | "stored" | "trial";
            name: string;
            policies: string[];
            policy: string;
            revision?: number;
            updated_at?: number;
            updated_by?: string;
        };
    };
    /** List the texts of policies in force and on trial, and where they come from. */
    "policy.list": {
        params: {
            cursor?: string;
            from?: "shipped" | "file" | "stored" | "trial";
            limit?: number;
        };
        result: {
            next_cursor?: string;
            policies: ({
                broken?: string;
                from: "shipped" | "file" | "stored" | "trial";
                name: string;
                policies: string[];
                updated_at?: number;
                updated_by?: string;
            })[];
            total: number;
        };
    };
    /** Put policies in force that are on trial, in place of those of the same name. */
    "policy.promote": {
        params: {
            name: string;
            revision?: number;
        };
        result: {
            name: string;
            policies: string[];
            revision: number;
        };
    };
    /** Put policies in force or on trial, or replace those of the same name. */
    "policy.put": {
        params: {
            mode?: "enforce" | "observe";
            name: string;
            policy: string;
            revision?: number;
        };
        result: {
            name: string;
            policies: string[];
            revision: number;
        };
    };
    /** Take policies that were put by policy.put out of force, or end their trial. */
    "policy.remove": {
        params: {
            name: string;
        };
        result: {
            name: string;
        };
    };
    /** Tell what policies on trial would have decided otherwise. */
    "policy.report": {
        params: {
            limit?: number;
            outcome?: "refuse" | "allow" | "ask" | "run";
        };
        result: {
            findings: ({
                action: string;
                count: number;
                examples: {
                    at: number;
                    door?: string;
                    principal: string;
                    resource?: string;
                    space_id: string;
                }[];
                first_at: number;
                kind?: string;
                last_at: number;
                outcome: "refuse" | "allow" | "ask" | "run";
                policy?: string;
                type?: string;
            })[];
            judged: number;
            more: number;
            silent?: string[];
            since: number;
            total: number;
            trials: string[];
        };
    };
    /** Say what is wrong with policies, without putting them in force. */
    "policy.validate": {
        params: {
            policy: string;
        };
        result: {
            errors: string[];
            valid: boolean;
            warnings: string[];
        };
    };
    /** Show a queue: its bounds, who publishes to it, and its messages without their payloads. */
    "queue.info": {
        params: {
            cursor?: string;
            find?: string;
            limit?: number;
            principal?: string;
            queue: string;
            sort?: "id" | "-id" | "queued_at" | "-queued_at" | "topic" | "-topic" | "principal" | "-principal" | "bytes" | "-bytes" | "tries" | "-tries";
            space_id?: string;
        };
        result: {
            bounds?: {
                bytes: number;
                dead_letters?: number;
                deliveries?: number;
                hours: number;
                last_value?: boolean;
                messages: number;
                prefetch: number;
                share: number;
            };
            bytes: number;
            configured: boolean;
            messages: number;
            most: {
                bytes: number;
                messages: number;
                principal?: string;
            }[];
            next_cursor?: string;
            oldest_at?: number;
            places: {
                bridge?: string;
                bytes: number;
                dead_reason?: string;
                expires_at: number;
                principal?: string;
                queued_at: number;
                queued_id: string;
                topic: string;
                tries?: number;
            }[];
            publishers: number;
            queue: string;
            space_id: string;
            topic?: string;
            total: number;
            workers: number;
        };
    };
    /** List queues of messages that wait for workers, with what is in them. */
    "queue.list": {
        params: {
            cursor?: string;
            find?: string;
            limit?: number;
            sort?: "id" | "-id" | "messages" | "-messages" | "bytes" | "-bytes";
            space_id?: string;
        };
        result: {
            next_cursor?: string;
            queues: {
                bytes: number;
                configured: boolean;
                messages: number;
                oldest_at?: number;
                publishers: number;
                queue: string;
                space_id: string;
                topic?: string;
                workers: number;
            }[];
            total: number;
        };
    };
    /** Delete the messages of a queue that wait, or those of one publisher. */
    "queue.purge": {
        params: {
            principal?: string;
            queue: string;
            space_id?: string;
        };
        result: {
            left: number;
            removed: number;
        };
    };
    /** Delete one message of a queue, also one that a worker has: nobody gets it again. */
    "queue.remove": {
        params: {
            queued_id: string;
        };
        result: {
            bridge?: string;
            bytes: number;
            dead_reason?: string;
            expires_at: number;
            principal?: string;
            queued_at: number;
            queued_id: string;
            topic: string;
            tries?: number;
        };
    };
    /** Put dead letters back into their queue, behind the messages that wait: all, those of one publisher, or one. */
    "queue.retry": {
        params: {
            principal?: string;
            queue: string;
            queued_id?: string;
            space_id?: string;
        };
        result: {
            left: number;
            retried: number;
        };
    };
    /** Show how far a principal, and its space, have used up their limits: at all bridges and at each. */
    "quota.get": {
        params: {
            kind?: "operator" | "agent" | "skill";
            principal_id?: string;
            space_id?: string;
        };
        result: {
            bridge_id: string;
            kind: string;
            principal: {
                bridges?: Record<string, number>;
                limit: string;
                most?: number;
                share_here?: number;
                used: number;
                used_here: number;
            }[];
            principal_id: string;
            silent?: string[];
            space: {
                bridges?: Record<string, number>;
                limit: string;
                most?: number;
                share_here?: number;
                used: number;
                used_here: number;
            }[];
            space_id: string;
        };
    };
    /** Show a resource. */
    "resource.get": {
        params: {
            resource_id: string;
            space_id?: string;
        };
        result: {
            resource: {
                description?: string;
                name: string;
                owner: string;
                properties?: unknown;
                resource_id: string;
                revision: number;
                space_id: string;
                status: string;
                type: string;
                updated_at: number;
            };
        };
    };
    /** List the resources of a space. */
    "resource.list": {
        params: {
            cursor?: string;
            limit?: number;
            space_id?: string;
            type?: string;
        };
        result: {
            next_cursor?: string;
            resources: {
                name: string;
                resource_id: string;
                space_id: string;
                status: string;
                type: string;
            }[];
            total: number;
        };
    };
    /** Register a resource, or change it. */
    "resource.register": {
        params: {
            resource: {
                description?: string;
                name: string;
                properties?: Record<string, unknown>;
                resource_id: string;
                status?: string;
                type: string;
            };
            space_id?: string;
        };
        result: {
            resource_id: string;
            revision: number;
        };
    };
    /** Take a resource out of the registry. */
    "resource.remove": {
        params: {
            resource_id: string;
            space_id?: string;
        };
        result: {
            resource_id: string;
            revision: number;
        };
    };
    /** Create a scene, or take part in one that exists. */
    "scene.declare": {
        params: {
            cap_id: string;
            cert_sn?: string;
            is_owner_declaration: boolean;
            scene_type: string;
            skill_id: string;
            skill_role: string;
        };
        result: {
            cap_id: string;
            created: boolean;
            revision: number;
            scene_type: string;
            skill_id: string;
            skill_role: string;
        };
    };
    /** Take a declaration back: the owner's ends the scene for all, a member's its own part. */
    "scene.declare.cancel": {
        params: {
            cap_id: string;
            scene_type: string;
            skill_id: string;
        };
        result: {
            cancelled: boolean;
            ended: boolean;
            scene_type: string;
        };
    };
    /** Take part in a scene that exists. */
    "scene.join": {
        params: {
            cap_id: string;
            scene_type: string;
            skill_id: string;
            skill_role?: string;
        };
        result: {
            cap_id: string;
            revision: number;
            scene_type: string;
            skill_id: string;
            skill_role: string;
        };
    };
    /** Take part in a scene no longer; the owner hands it to a backup. */
    "scene.leave": {
        params: {
            cap_id: string;
            scene_type: string;
            skill_id: string;
            skill_role?: string;
        };
        result: {
            cap_id: string;
            revision: number;
            scene_type: string;
            skill_id: string;
            skill_role: string;
        };
    };
    /** List scenes: who owns them, who is in charge, and who takes part. */
    "scene.query": {
        params: {
            cap_id?: string;
            cursor?: string;
            find?: string;
            limit?: number;
            scene_type?: string;
            sort?: "id" | "-id" | "status" | "-status" | "members" | "-members" | "updated_at" | "-updated_at";
            status?: "active" | "suspended";
        };
        result: {
            next_cursor?: string;
            scenes: ({
                acting?: string;
                cap_id: string;
                declared_at: number;
                members: ({
                    cert_sn?: string;
                    joined_at: number;
                    reason?: string;
                    skill_id: string;
                    skill_role: string;
                    status: "online" | "offline" | "suspended";
                })[];
                owner: string;
                reason?: string;
                revision: number;
                scene_type: string;
                status: "active" | "suspended";
                suspended_at?: number;
                updated_at: number;
            })[];
            total: number;
        };
    };
    /** Retire a version of a secret that nothing needs any more: it is removed, and nothing is recognised by it from then on. */
    "secret.retire": {
        params: {
            gone?: string[];
            secret: "pepper" | "data_key" | "seal_key" | "ca_key" | "authorities";
            version: string;
        };
        result: {
            secret: string;
            versions: {
                active_at?: number;
                bridges?: string[];
                created_at?: number;
                retired_at?: number;
                state: string;
                uses?: Record<string, number>;
                version: string;
            }[];
        };
    };
    /** Make a new version of a secret, with which all that is new is made. Nothing stops, and nothing that counts ceases to. */
    "secret.rotate": {
        params: {
            secret: "pepper" | "data_key" | "seal_key" | "ca_key" | "authorities";
        };
        result: {
            resealed: number;
            secret: string;
            version: string;
            versions: {
                active_at?: number;
                bridges?: string[];
                created_at?: number;
                retired_at?: number;
                state: string;
                uses?: Record<string, number>;
                version: string;
            }[];
        };
    };
    /** Show the versions of the secrets of the bridge, and what still needs them. The secrets themselves are never shown. */
    "secret.status": {
        params: Record<string, unknown>;
        result: {
            secrets: {
                secret: string;
                versions: {
                    active_at?: number;
                    bridges?: string[];
                    created_at?: number;
                    retired_at?: number;
                    state: string;
                    uses?: Record<string, number>;
                    version: string;
                }[];
            }[];
        };
    };
    /** Show an MQTT session: its client, what it subscribed to, what waits for it. */
    "session.get": {
        params: {
            client_id: string;
            space_id?: string;
        };
        result: {
            bridge_id?: string;
            client_id: string;
            credential?: string;
            dropped: number;
            expires_at?: number;
            expiry: number;
            filters: {
                filter: string;
                qos: number;
                shared?: boolean;
            }[];
            inflight: number;
            late_since?: number;
            listener?: string;
            method?: string;
            outbox_bytes: number;
            principal: string;
            protocol: string;
            queued: number;
            queued_bytes: number;
            remote?: string;
            space_id: string;
            state: string;
            subscriptions: number;
            will_topic?: string;
        };
    };
    /** Disconnect an MQTT client, and end its session if asked to. */
    "session.kick": {
        params: {
            client_id: string;
            forget?: boolean;
            space_id?: string;
        };
        result: {
            client_id: string;
            disconnected: boolean;
            forgotten: boolean;
        };
    };
    /** List the MQTT sessions of a space, connected and kept. */
    "session.list": {
        params: {
            cursor?: string;
            find?: string;
            limit?: number;
            principal?: string;
            sort?: "id" | "-id" | "principal" | "-principal" | "subscriptions" | "-subscriptions" | "inflight" | "-inflight" | "queued" | "-queued" | "dropped" | "-dropped" | "late" | "-late";
            space_id?: string;
            state?: "connected" | "kept";
        };
        result: {
            next_cursor?: string;
            sessions: {
                bridge_id?: string;
                client_id: string;
                credential?: string;
                dropped: number;
                expires_at?: number;
                inflight: number;
                late_since?: number;
                listener?: string;
                method?: string;
                principal: string;
                protocol: string;
                queued: number;
                remote?: string;
                space_id: string;
                state: string;
                subscriptions: number;
            }[];
            silent?: string[];
            total: number;
        };
    };
    /** Show the headlines of a trace that was started, the newest 1000 at most. */
    "session.trace.get": {
        params: {
            after?: number;
            client_id: string;
            limit?: number;
            space_id?: string;
        };
        result: {
            client_id: string;
            ends_at: number;
            headlines: ({
                at: number;
                dup?: boolean;
                filters?: string[];
                from: "client" | "bridge";
                n: number;
                packet_id?: number;
                qos?: number;
                reasons?: string[];
                retain?: boolean;
                size: number;
                topic?: string;
                type: string;
            })[];
            missed?: number;
        };
    };
    /** Take note of the packets of one MQTT client for up to five minutes: their headlines, not what they carry. */
    "session.trace.start": {
        params: {
            client_id: string;
            seconds?: number;
            space_id?: string;
        };
        result: {
            client_id: string;
            ends_at: number;
        };
    };
    /** End a trace, and forget its headlines. */
    "session.trace.stop": {
        params: {
            client_id: string;
            space_id?: string;
        };
        result: {
            client_id: string;
        };
    };
    /** Find skills by what they can do. */
    "skill.discover": {
        params: {
            capability?: string;
            cursor?: string;
            limit?: number;
            space_id?: string;
            text?: string;
        };
        result: {
            next_cursor?: string;
            skills: ({
                agent_id?: string;
                agent_ids: string[];
                capabilities: (string | {
                    capability_id: string;
                    description?: string;
                    effect?: string;
                    effect_key?: string;
                    effect_window_ms?: number;
                    format?: string;
                    idempotent?: boolean;
                    name?: string;
                    params_schema?: Record<string, unknown> | boolean;
                    reconcile?: Record<string, unknown>;
                    result_schema?: Record<string, unknown> | boolean;
                    risk?: string;
                    sealed?: string;
                })[];
                description: string;
                encryption_keys?: {
                    chain?: string[];
                    expires?: number;
                    key: string;
                    kid: string;
                    signature?: string;
                    suite: "X25519-SHA256-AES256GCM";
                }[];
                endpoints: string[];
                name: string;
                skill_id: string;
                space_id: string;
                state_schema?: Record<string, unknown> | boolean;
                status: string;
                type: string;
                version: string;
            })[];
            total: number;
        };
    };
    /** List what calls of capabilities with effect keys have done, or may have done. */
    "skill.effect.list": {
        params: {
            cursor?: string;
            limit?: number;
            skill_id?: string;
            sort?: "id" | "-id" | "began_at" | "-began_at";
            space_id?: string;
            state?: "running" | "done" | "not_done" | "unknown";
        };
        result: {
            effects: ({
                agent_id?: string;
                began_at: number;
                by: string;
                capability_id: string;
                effect_id: string;
                ended_at?: number;
                expires_at: number;
                key: string;
                settled_by?: string;
                skill_id: string;
                state: "running" | "done" | "not_done" | "unknown";
                why?: string;
            })[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Say whether an effect of unknown outcome was done, after somebody has looked. */
    "skill.effect.settle": {
        params: {
            effect_id: string;
            outcome: "done" | "not_done";
            reason: string;
            space_id?: string;
        };
        result: {
            agent_id?: string;
            began_at: number;
            by: string;
            capability_id: string;
            effect_id: string;
            ended_at?: number;
            expires_at: number;
            key: string;
            settled_by?: string;
            skill_id: string;
            state: "running" | "done" | "not_done" | "unknown";
            why?: string;
        };
    };
    /** Have a skill do something. */
    "skill.invoke": {
        params: {
            async?: boolean;
            capability_id: string;
            params?: Record<string, unknown>;
            skill_id: string;
            space_id?: string;
        };
        result: {
            agent_id?: string;
            capability_id: string;
            data: unknown;
            effect?: {
                agent_id?: string;
                began_at: number;
                by: string;
                capability_id: string;
                effect_id: string;
                ended_at?: number;
                expires_at: number;
                key: string;
                settled_by?: string;
                skill_id: string;
                state: "running" | "done" | "not_done" | "unknown";
                why?: string;
            };
            execution_time: number;
            skill_id: string;
        };
    };
    /** Make a token with which other agents can join those that provide a skill. It is shown once, in the answer. */
    "skill.join.create": {
        params: {
            skill_id: string;
            space_id?: string;
            ttl_seconds?: number;
            uses?: number;
        };
        result: {
            agent_ids: string[];
            created_at: number;
            created_by: string;
            expires_at: number;
            skill_id: string;
            token: string;
            token_id: string;
            uses: number;
        };
    };
    /** List the join tokens of a skill that can still be used, without their secrets. */
    "skill.join.list": {
        params: {
            skill_id: string;
            space_id?: string;
        };
        result: {
            joins: {
                agent_ids: string[];
                created_at: number;
                created_by: string;
                expires_at: number;
                skill_id: string;
                token_id: string;
                uses: number;
            }[];
            total: number;
        };
    };
    /** Take a join token back. The agents that it has let in stay. */
    "skill.join.revoke": {
        params: {
            skill_id: string;
            space_id?: string;
            token_id: string;
        };
        result: {
            agent_ids: string[];
            created_at: number;
            created_by: string;
            expires_at: number;
            skill_id: string;
            token_id: string;
            uses: number;
        };
    };
    /** Have another agent provide a skill, as the skill's owner or as an operator. */
    "skill.provider.add": {
        params: {
            agent_id: string;
            skill_id: string;
            space_id?: string;
        };
        result: {
            agent_ids: string[];
            revision: number;
            skill_id: string;
        };
    };
    /** Stop an agent from providing a skill, as the skill's owner or as an operator. */
    "skill.provider.remove": {
        params: {
            agent_id: string;
            skill_id: string;
            space_id?: string;
        };
        result: {
            removed: boolean;
            skill_id: string;
        };
    };
    /** Register a skill, change it, or add an agent that provides it. */
    "skill.register": {
        params: {
            agent_id?: string;
            join?: string;
            skill: {
                capabilities: (string | {
                    capability_id: string;
                    description?: string;
                    effect?: "read" | "act";
                    effect_key?: string;
                    effect_window_ms?: number;
                    format?: "annotate" | "assert";
                    idempotent?: boolean;
                    name?: string;
                    params_schema?: Record<string, unknown> | boolean;
                    reconcile?: {
                        capability_id: string;
                        done_when: Record<string, string | number | boolean>;
                        not_done_when?: Record<string, string | number | boolean>;
                        params?: Record<string, string | number | boolean>;
                    };
                    result_schema?: Record<string, unknown> | boolean;
                    risk?: string;
                    sealed?: "optional" | "required";
                })[];
                description?: string;
                encryption_keys?: {
                    chain?: string[];
                    expires?: number;
                    key: string;
                    kid: string;
                    signature?: string;
                    suite: "X25519-SHA256-AES256GCM";
                }[];
                endpoints?: string[];
                name: string;
                skill_id: string;
                state_schema?: Record<string, unknown> | boolean;
                type?: "system" | "custom";
                version?: string;
            };
            space_id?: string;
        };
        result: {
            agent_id?: string;
            revision: number;
            skill_id: string;
        };
    };
    /** Stop an agent from providing a skill, or remove the skill. */
    "skill.unregister": {
        params: {
            agent_id?: string;
            skill_id: string;
            space_id?: string;
        };
        result: {
            removed: boolean;
            skill_id: string;
        };
    };
    /** Say what state a skill of an agent shall have, whether or not the agent is there. */
    "state.desired.set": {
        params: {
            agent_id: string;
            replace?: boolean;
            skill_id: string;
            space_id?: string;
            state: Record<string, unknown>;
            version?: number;
        };
        result: {
            agent_id: string;
            delta: Record<string, unknown>;
            skill_id: string;
            state: Record<string, unknown>;
            version: number;
        };
    };
    /** Show what state the skills of an agent shall have, what they have, and how the two differ. */
    "state.get": {
        params: {
            agent_id: string;
            history?: boolean;
            skill_id?: string;
            space_id?: string;
        };
        result: {
            agent_id: string;
            skills: {
                delta: Record<string, unknown>;
                desired: {
                    history?: {
                        at: number;
                        by: string;
                        patch?: Record<string, unknown>;
                        version: number;
                    }[];
                    state: Record<string, unknown>;
                    updated_at?: number;
                    updated_by?: string;
                    version: number;
                };
                in_sync: boolean;
                reported: {
                    history?: {
                        at: number;
                        by: string;
                        patch?: Record<string, unknown>;
                        version: number;
                    }[];
                    state: Record<string, unknown>;
                    updated_at?: number;
                    updated_by?: string;
                    version: number;
                };
                skill_id: string;
            }[];
            space_id: string;
        };
    };
    /** Say, as an agent, what state one of its skills has. */
    "state.report": {
        params: {
            agent_id: string;
            replace?: boolean;
            skill_id: string;
            space_id?: string;
            state: Record<string, unknown>;
            version?: number;
        };
        result: {
            agent_id: string;
            delta: Record<string, unknown>;
            skill_id: string;
            state: Record<string, unknown>;
            version: number;
        };
    };
    /** Cancel a task and wait until it has ended. */
    "task.cancel": {
        params: {
            reason?: string;
            task_id: string;
        };
        result: {
            command: string;
            dialogue?: {
                agent?: string;
                changed_at: string;
                context_id: string;
                goes_on_as?: string;
                message_id: string;
                notes?: unknown;
            };
            ended_at?: unknown;
            error?: {
                code: string;
                details: Record<string, unknown>;
                message: string;
            };
            group?: {
                cap_id: string;
                capability_id: string;
                completion: string;
                counts?: Record<string, number>;
                deadline: number;
                group_id: string;
                members?: ({
                    agent_id?: string;
                    asked_at?: number;
                    at: number;
                    attempts?: number;
                    data?: unknown;
                    data_dropped?: boolean;
                    error?: {
                        code: string;
                        details: Record<string, unknown>;
                        message: string;
                    };
                    late?: boolean;
                    progress?: unknown;
                    role?: string;
                    skill_id: string;
                    state: "pending" | "accepted" | "running" | "ok" | "failed" | "rejected" | "timed_out" | "offline" | "denied" | "cancelled";
                })[];
                n?: number;
                params?: unknown;
                rollout?: {
                    approval_id?: string;
                    continuous?: boolean;
                    opens_at?: unknown;
                    rate_per_minute?: number;
                    reason?: string;
                    selector?: string;
                    valid_until: string;
                };
            };
            kind?: string;
            owner?: string;
            principal: string;
            progress?: {
                data?: unknown;
                event: string;
                seq: number;
            };
            result?: unknown;
            space_id: string;
            started_at: string;
            state: "pending" | "waiting" | "running" | "paused" | "aborted" | "succeeded" | "complete" | "partial" | "failed" | "cancelled";
            task_id: string;
            trace_id?: string;
            waits?: {
                approval_id: string;
                expires_at: number;
                tool: string;
            };
        };
    };
    /** Show a task: its state, and its result once it has ended. */
    "task.get": {
        params: {
            task_id: string;
        };
        result: {
            command: string;
            dialogue?: {
                agent?: string;
                changed_at: string;
                context_id: string;
                goes_on_as?: string;
                message_id: string;
                notes?: unknown;
            };
            ended_at?: unknown;
            error?: {
                code: string;
                details: Record<string, unknown>;
                message: string;
            };
            group?: {
                cap_id: string;
                capability_id: string;
                completion: string;
                counts?: Record<string, number>;
                deadline: number;
                group_id: string;
                members?: ({
                    agent_id?: string;
                    asked_at?: number;
                    at: number;
                    attempts?: number;
                    data?: unknown;
                    data_dropped?: boolean;
                    error?: {
                        code: string;
                        details: Record<string, unknown>;
                        message: string;
                    };
                    late?: boolean;
                    progress?: unknown;
                    role?: string;
                    skill_id: string;
                    state: "pending" | "accepted" | "running" | "ok" | "failed" | "rejected" | "timed_out" | "offline" | "denied" | "cancelled";
                })[];
                n?: number;
                params?: unknown;
                rollout?: {
                    approval_id?: string;
                    continuous?: boolean;
                    opens_at?: unknown;
                    rate_per_minute?: number;
                    reason?: string;
                    selector?: string;
                    valid_until: string;
                };
            };
            kind?: string;
            owner?: string;
            principal: string;
            progress?: {
                data?: unknown;
                event: string;
                seq: number;
            };
            result?: unknown;
            space_id: string;
            started_at: string;
            state: "pending" | "waiting" | "running" | "paused" | "aborted" | "succeeded" | "complete" | "partial" | "failed" | "cancelled";
            task_id: string;
            trace_id?: string;
            waits?: {
                approval_id: string;
                expires_at: number;
                tool: string;
            };
        };
    };
    /** List tasks, the latest first. */
    "task.list": {
        params: {
            cap_id?: string;
            command?: string;
            cursor?: string;
            find?: string;
            group_id?: string;
            limit?: number;
            principal?: string;
            sort?: "id" | "-id" | "command" | "-command" | "state" | "-state" | "principal" | "-principal" | "ended_at" | "-ended_at";
            state?: "pending" | "waiting" | "running" | "paused" | "aborted" | "succeeded" | "complete" | "partial" | "failed" | "cancelled";
            unfinished?: boolean;
        };
        result: {
            next_cursor?: string;
            tasks: ({
                command: string;
                dialogue?: {
                    agent?: string;
                    changed_at: string;
                    context_id: string;
                    goes_on_as?: string;
                    message_id: string;
                    notes?: unknown;
                };
                ended_at?: unknown;
                error?: {
                    code: string;
                    details: Record<string, unknown>;
                    message: string;
                };
                group?: {
                    cap_id: string;
                    capability_id: string;
                    completion: string;
                    counts?: Record<string, number>;
                    deadline: number;
                    group_id: string;
                    members?: ({
                        agent_id?: string;
                        asked_at?: number;
                        at: number;
                        attempts?: number;
                        data?: unknown;
                        data_dropped?: boolean;
                        error?: {
                            code: string;
                            details: Record<string, unknown>;
                            message: string;
                        };
                        late?: boolean;
                        progress?: unknown;
                        role?: string;
                        skill_id: string;
                        state: "pending" | "accepted" | "running" | "ok" | "failed" | "rejected" | "timed_out" | "offline" | "denied" | "cancelled";
                    })[];
                    n?: number;
                    params?: unknown;
                    rollout?: {
                        approval_id?: string;
                        continuous?: boolean;
                        opens_at?: unknown;
                        rate_per_minute?: number;
                        reason?: string;
                        selector?: string;
                        valid_until: string;
                    };
                };
                kind?: string;
                owner?: string;
                principal: string;
                progress?: {
                    data?: unknown;
                    event: string;
                    seq: number;
                };
                result?: unknown;
                space_id: string;
                started_at: string;
                state: "pending" | "waiting" | "running" | "paused" | "aborted" | "succeeded" | "complete" | "partial" | "failed" | "cancelled";
                task_id: string;
                trace_id?: string;
                waits?: {
                    approval_id: string;
                    expires_at: number;
                    tool: string;
                };
            })[];
            total: number;
        };
    };
    /** List which tokens of issuers are revoked, until they would have expired. */
    "token.list": {
        params: {
            cursor?: string;
            limit?: number;
            principal_id?: string;
            space_id?: string;
        };
        result: {
            next_cursor?: string;
            revoked: {
                forgotten_at?: number;
                issued_before?: number;
                issuer?: string;
                kind?: string;
                principal_id?: string;
                reason?: string;
                revocation_id: string;
                revoked_at: number;
                revoked_by: string;
                space_id?: string;
                token_id?: string;
            }[];
            total: number;
        };
    };
    /** Revoke a token of an issuer, or all that a principal has by now, and disconnect who came in with them. */
    "token.revoke": {
        params: {
            issued_before?: number;
            issuer?: string;
            kind?: "operator" | "agent" | "skill";
            principal_id?: string;
            reason?: string;
            space_id?: string;
            token_id?: string;
        };
        result: {
            forgotten_at?: number;
            issued_before?: number;
            issuer?: string;
            kind?: string;
            principal_id?: string;
            reason?: string;
            revocation_id: string;
            revoked_at: number;
            revoked_by: string;
            space_id?: string;
            token_id?: string;
        };
    };
    /** Copy a file, or all files of a folder, without moving their content. */
    "vfs.copy": {
        params: {
            group_name: string;
            overwrite?: boolean;
            path: string;
            recursive?: boolean;
            to_group_name?: string;
            to_path: string;
            version?: number;
        };
        result: {
            file?: {
                checksum?: string;
                content_type?: string;
                deleted?: boolean;
                file_id: string;
                modified: number;
                mtime?: number;
                path: string;
                size: number;
                version: number;
            };
            files: number;
            group_name: string;
            path: string;
        };
    };
    /** Delete a file, or all files of a folder. Their versions are kept for a while. */
    "vfs.delete": {
        params: {
            file_id?: string;
            group_name: string;
            path?: string;
            recursive?: boolean;
            version?: number;
        };
        result: {
            deleted?: number;
            file_id?: string;
            path: string;
            version?: number;
        };
    };
    /** List the groups of files that the caller may read. */
    "vfs.group.list": {
        params: {
            cursor?: string;
            find?: string;
            limit?: number;
            sort?: "id" | "-id" | "files" | "-files" | "bytes" | "-bytes" | "owner" | "-owner";
        };
        result: {
            groups: {
                bytes: number;
                files: number;
                group_name: string;
                owner?: string;
                vfs_id: string;
            }[];
            next_cursor?: string;
            total: number;
        };
    };
    /** Show whether every VFS of the space can be reached. */
    "vfs.health": {
        params: {
            vfs_id?: string;
        };
        result: {
            capabilities?: string[];
            group_name?: string;
            others?: ({
                capabilities?: string[];
                group_name?: string;
                reason?: string;
                status: "online" | "offline";
                storage_total: number;
                storage_used: number;
                vfs_id: string;
                vfs_url?: string;
            })[];
            reason?: string;
            status: "online" | "offline";
            storage_total: number;
            storage_used: number;
            vfs_id: string;
            vfs_url?: string;
        };
    };
    /** List the files of a group, as they are or as they were. */
    "vfs.list": {
        params: {
            cursor?: string;
            deleted?: boolean;
            folders?: boolean;
            group_name: string;
            limit?: number;
            path?: string;
            snapshot_id?: string;
        };
        result: {
            files: {
                checksum?: string;
                content_type?: string;
                deleted?: boolean;
                file_id: string;
                modified: number;
                mtime?: number;
                path: string;
                size: number;
                version: number;
            }[];
            folders?: string[];
            group_name: string;
            next_cursor?: string;
            snapshot_id?: string;
        };
    };
    /** Move a file, or all files of a folder, without moving their content. Their versions so far stay with the old path. */
    "vfs.move": {
        params: {
            group_name: string;
            overwrite?: boolean;
            path: string;
            recursive?: boolean;
            to_group_name?: string;
            to_path: string;
        };
        result: {
            file?: {
                checksum?: string;
                content_type?: string;
                deleted?: boolean;
                file_id: string;
                modified: number;
                mtime?: number;
                path: string;
                size: number;
                version: number;
            };
            files: number;
            group_name: string;
            path: string;
        };
    };
    /** Keep the files of a group, or of all, in a remote VFS. */
    "vfs.register": {
        params: {
            capabilities?: string[];
            credential?: string;
            group_name?: string;
            remote_group?: string;
            vfs_id: string;
            vfs_url: string;
        };
        result: {
            capabilities?: string[];
            group_name?: string;
            reason?: string;
            status: "online" | "offline";
            storage_total: number;
            storage_used: number;
            vfs_id: string;
            vfs_url?: string;
        };
    };
    /** Make a kept version of a file its newest one, also of a file that was deleted. */
    "vfs.restore": {
        params: {
            current?: number;
            group_name: string;
            path: string;
            version: number;
        };
        result: {
            checksum?: string;
            content_type?: string;
            deleted?: boolean;
            file_id: string;
            group_name: string;
            modified: number;
            mtime?: number;
            path: string;
            size: number;
            version: number;
        };
    };
    /** Show a VFS: whether it can be reached, and how much room it has. */
    "vfs.status": {
        params: {
            vfs_id?: string;
        };
        result: {
            capabilities?: string[];
            group_name?: string;
            reason?: string;
            status: "online" | "offline";
            storage_total: number;
            storage_used: number;
            vfs_id: string;
            vfs_url?: string;
        };
    };
    /** Compare a caller's files with those of a group: what is to be uploaded, downloaded, deleted. */
    "vfs.sync": {
        params: {
            action?: "sync-all";
            cursor?: string;
            files?: {
                checksum: string;
                path: string;
                version?: number;
            }[];
            group_name: string;
            limit?: number;
            sync_direction?: "both" | "to" | "from";
        };
        result: {
            files: ({
                checksum?: string;
                content?: string;
                encoding?: "utf-8" | "base64";
                error?: {
                    code: string;
                    message: string;
                };
                file_id?: string;
                mtime?: number;
                path: string;
                size?: number;
                status: "synced" | "upload" | "download" | "deleted" | "conflict" | "not_found" | "too_large" | "failed";
                version?: number;
            })[];
            group_name: string;
            next_cursor?: string;
        };
    };
    /** Read small files of a group. */
    "vfs.sync.from": {
        params: {
            files: string[];
            group_name: string;
        };
        result: {
            files: ({
                checksum?: string;
                content?: string;
                encoding?: "utf-8" | "base64";
                error?: {
                    code: string;
                    message: string;
                };
                file_id?: string;
                mtime?: number;
                path: string;
                size?: number;
                status: "synced" | "upload" | "download" | "deleted" | "conflict" | "not_found" | "too_large" | "failed";
                version?: number;
            })[];
            group_name: string;
            next_cursor?: string;
        };
    };
    /** Write small files of a group. */
    "vfs.sync.to": {
        params: {
            files: ({
                checksum?: string;
                content: string;
                content_type?: string;
                encoding?: "utf-8" | "base64";
                mtime?: number;
                path: string;
                version?: number;
            })[];
            group_name: string;
        };
        result: {
            files: ({
                checksum?: string;
                content?: string;
                encoding?: "utf-8" | "base64";
                error?: {
                    code: string;
                    message: string;
                };
                file_id?: string;
                mtime?: number;
                path: string;
                size?: number;
                status: "synced" | "upload" | "download" | "deleted" | "conflict" | "not_found" | "too_large" | "failed";
                version?: number;
            })[];
            group_name: string;
            next_cursor?: string;
        };
    };
    /** Forget a remote VFS. Its files stay where they are. */
    "vfs.unregister": {
        params: {
            vfs_id: string;
        };
        result: {
            vfs_id: string;
        };
    };
    /** List the kept versions of a file, also of one that was deleted. */
    "vfs.versions": {
        params: {
            group_name: string;
            path: string;
        };
        result: {
            group_name: string;
            path: string;
            versions: {
                checksum?: string;
                content_type?: string;
                deleted?: boolean;
                file_id: string;
                modified: number;
                mtime?: number;
                path: string;
                size: number;
                version: number;
            }[];
        };
    };
}
/** Name of a command. */
export type CommandName = keyof Commands;
