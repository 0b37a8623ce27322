"""One tiny document per format, made up by hand: enough to be recognised by its content."""

from __future__ import annotations

import json
from typing import Any


def _document(value: Any) -> bytes:
    return json.dumps(value).encode()


def _lines(*values: Any) -> bytes:
    return b"".join(json.dumps(v).encode() + b"\n" for v in values)


_CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Ring the bell."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ring", "arguments": '{"times": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "ring", "content": "ding"},
    {"role": "assistant", "content": "Done."},
]

SAMPLES: dict[str, bytes] = {
    "jsonl": _lines(
        {
            "type": "trace",
            "schema_version": 1,
            "head": {"trace_id": "b2:1", "episode": "b2:2", "task": "bell", "attempt": 2},
        },
        {"type": "text", "ref": "b2:3", "body": "ding"},
        {
            "type": "span",
            "trace_id": "b2:1",
            "span_id": "s0",
            "seq": 0,
            "kind": "tool",
            "name": "ring",
            "tool": "ring",
            "result": "b2:3",
        },
        {"type": "label", "trace_id": "b2:1", "name": "loud", "value": True, "by": "ear", "source": "hand"},
        {"type": "end", "spans": 1},
    ),
    "inspect": _document(
        {
            "version": 2,
            "status": "success",
            "eval": {
                "run_id": "r",
                "task": "bell",
                "task_id": "t",
                "model": "none/m",
                "created": "2026-01-02T03:04:05Z",
            },
            "plan": {"name": "plan", "steps": []},
            "results": {"total_samples": 1, "completed_samples": 1, "scores": []},
            "stats": {"started_at": "2026-01-02T03:04:05Z", "model_usage": {}},
            "samples": [
                {
                    "id": 1,
                    "epoch": 1,
                    "input": "Ring the bell.",
                    "target": "Done.",
                    "messages": [{"role": "user", "content": "Ring the bell."}],
                    "output": {"model": "m", "choices": []},
                    "scores": {"match": {"value": "C", "answer": "Done."}},
                    "events": [],
                }
            ],
        }
    ),
    "otlp": _document(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "tower"}}]},
                    "scopeSpans": [
                        {
                            "scope": {"name": "bells"},
                            "spans": [
                                {
                                    "traceId": "0af7651916cd43dd8448eb211c80319c",
                                    "spanId": "b7ad6b7169203331",
                                    "name": "chat m",
                                    "kind": 3,
                                    "startTimeUnixNano": "1700000000000000000",
                                    "endTimeUnixNano": "1700000001000000000",
                                    "attributes": [
                                        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                                        {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
                                    ],
                                }
                            ],
                        }
                    ],
                }
            ]
        }
    ),
    "openinference": _document(
        [
            {
                "id": "U3Bhbjox",
                "name": "ChatCompletion",
                "context": {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"},
                "span_kind": "LLM",
                "parent_id": None,
                "start_time": "2026-01-02T03:04:05+00:00",
                "end_time": "2026-01-02T03:04:06+00:00",
                "status_code": "OK",
                "status_message": "",
                "attributes": {
                    "openinference.span.kind": "LLM",
                    "llm.model_name": "m",
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.content": "Ring the bell.",
                },
                "events": [],
            }
        ]
    ),
    "langfuse": _document(
        {
            "trace": {
                "id": "lf-1",
                "projectId": "p",
                "name": "bell",
                "timestamp": "2026-01-02T03:04:05.000Z",
                "metadata": "{}",
                "scores": [],
            },
            "observations": [
                {
                    "id": "o1",
                    "traceId": "lf-1",
                    "parentObservationId": None,
                    "type": "GENERATION",
                    "name": "chat",
                    "startTime": "2026-01-02T03:04:05.000Z",
                    "endTime": "2026-01-02T03:04:06.000Z",
                    "model": "m",
                    "input": "Ring the bell.",
                    "output": "Done.",
                    "usageDetails": {"input": 3, "output": 1},
                    "metadata": "{}",
                }
            ],
        }
    ),
    "trail": _document(
        {
            "trace_id": "0af7651916cd43dd8448eb211c80319c",
            "spans": [
                {
                    "timestamp": "2026-01-02T03:04:05.000000Z",
                    "trace_id": "0af7651916cd43dd8448eb211c80319c",
                    "span_id": "b7ad6b7169203331",
                    "parent_span_id": None,
                    "trace_state": "",
                    "span_name": "main",
                    "span_kind": "Internal",
                    "service_name": "tower",
                    "resource_attributes": {},
                    "scope_name": "bells",
                    "scope_version": "1",
                    "span_attributes": {"openinference.span.kind": "CHAIN"},
                    "duration": "PT1.5S",
                    "status_code": "Ok",
                    "status_message": "",
                    "events": [],
                    "links": [],
                    "logs": [],
                    "child_spans": [],
                }
            ],
        }
    ),
    "atif": _document(
        {
            "schema_version": "ATIF-v1.5",
            "session_id": "at-1",
            "agent": {"name": "ringer", "version": "1.0", "model_name": "m"},
            "steps": [
                {"step_id": 1, "source": "user", "message": "Ring the bell."},
                {
                    "step_id": 2,
                    "source": "agent",
                    "message": "Ringing.",
                    "tool_calls": [{"tool_call_id": "c1", "function_name": "ring", "arguments": {"times": 1}}],
                    "observation": {"results": [{"source_call_id": "c1", "content": "ding"}]},
                    "metrics": {"prompt_tokens": 7, "completion_tokens": 2},
                },
            ],
            "final_metrics": {"total_prompt_tokens": 7, "total_completion_tokens": 2},
        }
    ),
    "claude-code": _lines(
        {
            "type": "user",
            "uuid": "11111111-1111-4111-8111-111111111111",
            "parentUuid": None,
            "isSidechain": False,
            "sessionId": "33333333-3333-4333-8333-333333333333",
            "cwd": "/tower",
            "version": "1.0.0",
            "timestamp": "2026-01-02T03:04:05.000Z",
            "message": {"role": "user", "content": "Ring the bell."},
        },
        {
            "type": "assistant",
            "uuid": "22222222-2222-4222-8222-222222222222",
            "parentUuid": "11111111-1111-4111-8111-111111111111",
            "isSidechain": False,
            "sessionId": "33333333-3333-4333-8333-333333333333",
            "cwd": "/tower",
            "version": "1.0.0",
            "timestamp": "2026-01-02T03:04:06.000Z",
            "message": {
                "id": "msg_1",
                "role": "assistant",
                "model": "m",
                "content": [{"type": "text", "text": "Done."}],
                "usage": {"input_tokens": 3, "output_tokens": 1},
            },
        },
    ),
    "openclaw": _lines(
        {
            "type": "message.in",
            "channel": "tower",
            "from": "abbot",
            "content": "Ring the bell.",
            "seq": 1,
            "ts": 1767323045000,
        },
        {
            "type": "agent.start",
            "sessionKey": "agent:main:main",
            "agentId": "main",
            "prompt": "Ring.",
            "seq": 2,
            "ts": 1767323045100,
        },
        {
            "type": "tool.start",
            "toolName": "ring",
            "params": {"times": 1},
            "sessionKey": "agent:main:main",
            "agentId": "main",
            "seq": 3,
            "ts": 1767323045200,
        },
        {
            "type": "tool.end",
            "toolName": "ring",
            "durationMs": 5,
            "success": True,
            "sessionKey": "agent:main:main",
            "agentId": "main",
            "seq": 4,
            "ts": 1767323045205,
        },
        {
            "type": "agent.end",
            "sessionKey": "agent:main:main",
            "agentId": "main",
            "messages": [],
            "success": True,
            "seq": 5,
            "ts": 1767323045300,
        },
    ),
    "tau-bench": _document(
        [
            {
                "task_id": 7,
                "trial": 1,
                "reward": 1.0,
                "info": {
                    "task": {"user_id": "abbot", "actions": [], "instruction": "Have the bell rung.", "outputs": []},
                    "source": "user",
                    "user_cost": 0.25,
                    "reward_info": {"reward": 1.0, "info": {"r_actions": 1.0}, "actions": []},
                },
                "traj": _CHAT,
            }
        ]
    ),
    "tau2": _document(
        {
            "timestamp": "2026-01-02T03:04:05",
            "info": {
                "git_commit": "abc",
                "num_trials": 1,
                "max_steps": 9,
                "max_errors": 3,
                "user_info": {"implementation": "user_simulator", "llm": "u", "llm_args": {"temperature": 0.0}},
                "agent_info": {"implementation": "llm_agent", "llm": "m", "llm_args": {"temperature": 0.5}},
                "environment_info": {"domain_name": "tower", "policy": "Ring softly.", "tool_defs": None},
                "seed": 5,
            },
            "tasks": [{"id": "t1", "user_scenario": {"instructions": "Have the bell rung."}}],
            "simulations": [
                {
                    "id": "44444444-4444-4444-8444-444444444444",
                    "task_id": "t1",
                    "start_time": "2026-01-02T03:04:05",
                    "end_time": "2026-01-02T03:04:10",
                    "duration": 5.0,
                    "termination_reason": "user_stop",
                    "agent_cost": 0.5,
                    "user_cost": 0.25,
                    "reward_info": {"reward": 1.0, "db_check": {"db_match": True, "db_reward": 1.0}},
                    "messages": [
                        {"role": "assistant", "content": "Yes?", "turn_idx": 0, "timestamp": "2026-01-02T03:04:05"},
                        {
                            "role": "user",
                            "content": "Ring the bell.",
                            "turn_idx": 1,
                            "timestamp": "2026-01-02T03:04:06",
                        },
                    ],
                    "trial": 0,
                    "seed": 11,
                }
            ],
        }
    ),
    "swe-agent": _document(
        {
            "environment": "swe_main",
            "trajectory": [
                {
                    "action": "ls\n",
                    "observation": "bell.py\n",
                    "response": "Look around.\n```\nls\n```",
                    "state": '{"open_file": "n/a", "working_dir": "/tower"}',
                    "thought": "Look around.",
                }
            ],
            "history": [
                {"role": "system", "content": "Be brief.", "agent": "primary"},
                {"role": "user", "content": "Ring the bell.", "agent": "primary"},
                {
                    "role": "assistant",
                    "content": "Look around.\n```\nls\n```",
                    "thought": "Look around.",
                    "action": "ls\n",
                },
            ],
            "info": {
                "exit_status": "submitted",
                "submission": "diff",
                "model_stats": {"instance_cost": 0.5, "tokens_sent": 9, "tokens_received": 2, "api_calls": 1},
            },
        }
    ),
    "mini-swe-agent": _document(
        {
            "info": {
                "exit_status": "Submitted",
                "submission": "diff",
                "model_stats": {"instance_cost": 0.5, "api_calls": 1},
                "mini_version": "1.0.0",
            },
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Ring the bell."},
                {"role": "assistant", "content": "THOUGHT: look\n```bash\nls\n```"},
                {"role": "user", "content": "<returncode>0</returncode>\n<output>\nbell.py\n</output>"},
            ],
            "trajectory_format": "mini-swe-agent-1",
        }
    ),
    "openhands": _document(
        [
            {
                "id": 0,
                "timestamp": "2026-01-02T03:04:05.000000",
                "source": "user",
                "message": "Ring the bell.",
                "action": "message",
                "args": {"content": "Ring the bell.", "image_urls": None, "wait_for_response": False},
            },
            {
                "id": 1,
                "timestamp": "2026-01-02T03:04:06.000000",
                "source": "agent",
                "message": "Running command: ring",
                "action": "run",
                "args": {"command": "ring", "thought": ""},
            },
            {
                "id": 2,
                "timestamp": "2026-01-02T03:04:07.000000",
                "source": "agent",
                "message": "Command executed",
                "cause": 1,
                "observation": "run",
                "content": "ding",
                "extras": {"command": "ring", "exit_code": 0},
            },
        ]
    ),
    "agentdojo": _document(
        {
            "suite_name": "tower",
            "pipeline_name": "m-with-tools",
            "user_task_id": "user_task_3",
            "injection_task_id": "injection_task_1",
            "attack_type": "important_instructions",
            "injections": {"bell_note": "Ring all night."},
            "messages": [
                {"role": "user", "content": [{"type": "text", "content": "Ring the bell."}]},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"function": "ring", "args": {"times": 1}, "id": "c1", "placeholder_args": None}],
                },
                {
                    "role": "tool",
                    "content": [{"type": "text", "content": "ding"}],
                    "tool_call_id": "c1",
                    "tool_call": {"function": "ring", "args": {"times": 1}, "id": "c1", "placeholder_args": None},
                    "error": None,
                },
                {"role": "assistant", "content": [{"type": "text", "content": "Done."}], "tool_calls": None},
            ],
            "error": None,
            "utility": True,
            "security": False,
            "duration": 2.5,
        }
    ),
    "mast": _document(
        {
            "instance_id": "sum-1",
            "problem_statement": ["Two bells,", "each rings twice."],
            "other_data": {
                "correct": True,
                "answer": "4",
                "given": "4",
                "perturbation_type": "none",
                "seed_question": "Bells?",
                "seed_solution": "2*2",
                "seed_answer": "4",
            },
            "trajectory": [
                {"content": ["Two bells,", "each rings twice."], "role": "assistant", "name": "mathproxyagent"},
                {"content": ["2 * 2 = 4", "The answer is 4."], "role": "user", "name": "assistant"},
            ],
            "note": {"text": [], "options": {"1.1": "no", "2.3": "no"}},
        }
    ),
    "who-and-when": _document(
        {
            "is_correct": False,
            "question": "How many bells?",
            "question_ID": "q-1",
            "level": "2",
            "ground_truth": "4",
            "history": [
                {"content": "Count them.", "role": "assistant", "name": "Planner_Expert"},
                {"content": "exitcode: 1 (execution failed)", "role": "user", "name": "Computer_terminal"},
                {"content": "There are 5.", "role": "user", "name": "Counting_Expert"},
            ],
            "mistake_agent": "Counting_Expert",
            "mistake_step": "2",
            "mistake_reason": "It guessed.",
            "system_prompt": {"Planner_Expert": "Plan.", "Counting_Expert": "Count."},
        }
    ),
    "traxr": _document(
        {
            "case": "quiet",
            "description": "One bell fails.",
            "input": {
                "task_id": "tower-1",
                "clean_trace": {
                    "run_label": "baseline",
                    "event_count": 1,
                    "events": [
                        {
                            "event_type": "final_answer",
                            "sequence_index": 0,
                            "step_num": 1,
                            "agent_name": "ringer",
                            "payload": {"answer": "4", "answer_hash": "h"},
                            "content_hash": "x",
                            "timestamp": "2026-01-02T03:04:05+00:00",
                        }
                    ],
                },
                "perturbed_trace": {"run_label": "quiet", "event_count": 0, "events": []},
            },
            "output": {"summary": {"perturbation_type": "quiet"}, "detail": {"aligned_pairs": []}},
        }
    ),
    "openai-chat": _lines({"messages": _CHAT}, {"messages": [*_CHAT[:2], {"role": "assistant", "content": "No."}]}),
    "promptfoo": _document(
        {
            "evalId": "e",
            "results": {
                "version": 3,
                "prompts": [],
                "results": [
                    {
                        "id": "7e06a1fb",
                        "provider": {"id": "echo", "label": "bellman"},
                        "prompt": {"raw": '[{"role": "user", "content": "Ring."}]', "label": "short"},
                        "vars": {"times": 1},
                        "response": {"output": "ding", "tokenUsage": {"prompt": 3, "completion": 1}, "cost": 0.01},
                        "success": True,
                        "failureReason": 0,
                        "score": 0.8,
                        "latencyMs": 250,
                        "metadata": {"area": "sound"},
                        "testIdx": 0,
                        "testCase": {"description": "bell"},
                        "gradingResult": {
                            "reason": "fine",
                            "componentResults": [{"pass": True, "reason": "it rang", "assertion": {"type": "equals"}}],
                        },
                    }
                ],
            },
        }
    ),
    "deepeval": _document(
        {
            "hyperparameters": {"model": "m"},
            "testCases": [
                {
                    "name": "bell",
                    "input": "Ring.",
                    "actualOutput": "ding",
                    "expectedOutput": "ding",
                    "toolsCalled": [{"name": "ring", "inputParameters": {"times": 1}, "output": "ok"}],
                    "tokenCost": 0.01,
                    "completionTime": 1.5,
                    "tags": ["sound"],
                    "success": True,
                    "metricsData": [{"name": "Loud", "score": 1.0, "success": True, "reason": "heard"}],
                }
            ],
            "conversationalTestCases": [],
        }
    ),
    "pydantic-evals": _document(
        {
            "name": "ring",
            "cases": [
                {
                    "name": "bell [1/2]",
                    "source_case_name": "bell",
                    "inputs": "Ring.",
                    "output": "ding",
                    "expected_output": "ding",
                    "metadata": {"area": "sound"},
                    "metrics": {"cost": 0.01, "input_tokens": 7},
                    "attributes": {"model": "m"},
                    "scores": {},
                    "labels": {},
                    "assertions": {"Loud": {"name": "Loud", "value": True, "reason": "heard"}},
                    "task_duration": 0.5,
                }
            ],
            "failures": [{"name": "gong", "inputs": "Gong.", "error_message": "ValueError: no gong"}],
        }
    ),
    "lm-eval": _lines(
        {
            "doc_id": 0,
            "doc": {"q": "2+2"},
            "target": "4",
            "arguments": {"gen_args_0": {"arg_0": "Q: 2+2 A:", "arg_1": {"until": ["x"]}}},
            "resps": [["4"]],
            "filtered_resps": ["4"],
            "filter": "none",
            "metrics": ["exact_match"],
            "doc_hash": "d",
            "exact_match": 1.0,
        },
        {
            "doc_id": 1,
            "doc": {"q": "1+1"},
            "target": "0",
            "arguments": {"gen_args_0": {"arg_0": "Q", "arg_1": " 2"}, "gen_args_1": {"arg_0": "Q", "arg_1": " 3"}},
            "resps": [[["-0.5", "False"]], [["-0.1", "False"]]],
            "filtered_resps": [["-0.5", "False"], ["-0.1", "False"]],
            "filter": "none",
            "metrics": ["acc"],
            "acc": 0.0,
        },
    ),
    "langsmith": _lines(
        {
            "id": "r1",
            "trace_id": "r1",
            "dotted_order": "20260102T030405000000Zr1",
            "parent_run_id": None,
            "name": "bellman",
            "run_type": "chain",
            "inputs": {"q": "Ring."},
            "outputs": {"answer": "ding"},
            "start_time": "2026-01-02T03:04:05",
            "end_time": "2026-01-02T03:04:07",
            "reference_example_id": "bell",
            "feedback_stats": {"loud": {"n": 1, "avg": 1.0}},
        },
        {
            "id": "r2",
            "trace_id": "r1",
            "dotted_order": "20260102T030405000000Zr1.20260102T030406000000Zr2",
            "parent_run_id": "r1",
            "name": "ChatModel",
            "run_type": "llm",
            "inputs": {"messages": [[{"role": "user", "content": "Ring."}]]},
            "outputs": {"text": "ding"},
            "prompt_tokens": 3,
            "completion_tokens": 1,
            "extra": {"metadata": {"ls_model_name": "m", "ls_provider": "none"}},
        },
    ),
    "episodes": _lines(
        {
            **{"run": "night", "episode": "b2:1", "trace_id": "b2:2", "task": "bell", "attempt": 0, "condition": ""},
            **{"agent": "a", "score": 1.0, "by": "rule", "reason": None, "cost_usd": 0.01, "input_tokens": 3},
        },
        {
            **{"run": "night", "episode": "b2:3", "trace_id": "b2:4", "task": "bell", "attempt": 1, "condition": ""},
            **{"agent": "a", "score": None, "by": None, "reason": "unscored", "cost_usd": None},
        },
    ),
    "table": _lines({"task": "bell", "score": 1, "cost": 0.01}, {"task": "gong", "score": 0, "cost": 0.02}),
}
